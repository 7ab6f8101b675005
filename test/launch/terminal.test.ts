// A task on a terminal: job control, and what the terminal sends to its processes.
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { buildLauncher, createLab, fixture, isRunning, stateOf, until, watch } from './harness.ts';
import type { Lab, Launcher } from './harness.ts';

const CTRL_C = '\u0003';
const CTRL_Z = '\u001A';
const CTRL_BACKSLASH = '\u001C';

let launcher: Launcher;
let lab: Lab;
let terminal: ChildProcess & { readonly output: () => string };
beforeAll(async () => {
  launcher = await buildLauncher();
});
afterAll(() => launcher.remove());
beforeEach(() => {
  lab = createLab(launcher.file);
});
afterEach(() => {
  terminal.kill('SIGKILL');
  lab.close();
});

/** An interactive shell in a terminal of its own (script(1)); `capture` is a function that runs the task. */
async function openTerminal(task: readonly string[]): Promise<void> {
  const { argv, env } = lab.command(task);
  const quoted = argv.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
  const child = spawn('script', ['-qfc', 'sh -i', '/dev/null'], {
    env: { ...env, ENV: '', CAPTURE_LINE: quoted },
    cwd: lab.dir,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const { stdout } = watch(child);
  terminal = Object.assign(child, { output: stdout });
  await until('prompt', () => /[#$] $/.test(stdout()));
}

function type(text: string): void {
  terminal.stdin?.write(text);
}

async function recordingInTerminal(): Promise<{ readonly task: number; readonly launcher: number }> {
  await openTerminal([process.execPath, fixture('record-signals.mjs'), 'signals', 'SIGUSR2']);
  type('sh -c \'echo $$ >launcher; eval "exec $CAPTURE_LINE"\'; echo "status $?" >>ended\n');
  await until('task runs', () => lab.lines('signals').includes('ready') && lab.heard().length >= 2);
  const started = lab.heard().find((message) => message.kind === 'task-started');
  return { task: started?.pid ?? 0, launcher: Number(lab.lines('launcher')[0]) };
}

describe('in a terminal', () => {
  test.each([
    ['Ctrl-C', CTRL_C, 'SIGINT'],
    ['Ctrl-\\', CTRL_BACKSLASH, 'SIGQUIT'],
  ])('%s reaches the task once', async (_, key, signal) => {
    const { launcher: pid } = await recordingInTerminal();
    type(key);
    await until('received', () => lab.lines('signals').includes(signal));
    process.kill(pid, 'SIGUSR2');
    await until('ended', () => lab.lines('ended').length === 1);
    expect(lab.lines('signals')).toEqual(['ready', signal, 'SIGUSR2']);
    expect(lab.lines('ended')).toEqual(['status 0']);
  });

  test('SIGTERM to the launcher alone reaches the task once, and never our own group', async () => {
    const { launcher: pid } = await recordingInTerminal();
    process.kill(pid, 'SIGTERM');
    await until('received', () => lab.lines('signals').includes('SIGTERM'));
    process.kill(pid, 'SIGUSR2');
    await until('ended', () => lab.lines('ended').length === 1);
    expect(lab.lines('signals')).toEqual(['ready', 'SIGTERM', 'SIGUSR2']);
    const told = lab.heard().filter((message) => message.kind === 'task-signalled');
    expect(told.map((message) => message.signal)).toEqual(['SIGTERM', 'SIGUSR2']);
  });

  test('Ctrl-Z gives the shell its terminal back, and fg continues the task', async () => {
    const { task, launcher: pid } = await recordingInTerminal();
    type(CTRL_Z);
    await until('both stopped', () => stateOf(task) === 'T' && stateOf(pid) === 'T');
    type('echo shell is back >>back\n');
    await until('the shell answers', () => lab.lines('back').length === 1);
    type('fg\n');
    await until('both run', () => stateOf(task) !== 'T' && stateOf(pid) !== 'T');
    await until('continued', () => lab.lines('signals').includes('SIGCONT'));
    process.kill(pid, 'SIGUSR2');
    await until('task has ended', () => stateOf(pid) === undefined);
    expect(lab.lines('signals').at(-1)).toBe('SIGUSR2');
  });

  test('the task keeps its terminal and reads from it', async () => {
    await openTerminal(['sh', '-c', 'read line </dev/tty; echo "got $line" >answer']);
    type('eval "$CAPTURE_LINE"; echo "status $?" >>ended\n');
    await until('task runs', () => lab.heard().length >= 2);
    type('hello\n');
    await until('ended', () => lab.lines('ended').length === 1);
    expect(lab.lines('answer')).toEqual(['got hello']);
  });

  test('what the task leaves in another job of the shell is ended, and the job is not', async () => {
    const joins = `import os, signal, time
job = int(open('job').read())
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setpgid(0, job)
    open('left', 'w').write(str(os.getpid()))
    time.sleep(1000)
while not os.path.exists('left'): time.sleep(0.01)`;
    await openTerminal(['python3', '-c', joins]);
    type('sleep 1000 & echo $! >job\n');
    type('eval "$CAPTURE_LINE"; echo "status $?" >>ended\n');
    await until('ended', () => lab.lines('ended').length === 1);
    expect(lab.lines('ended')).toEqual(['status 0']);
    expect(isRunning(Number(lab.lines('left')[0]))).toBe(false);
    const job = Number(lab.lines('job')[0]);
    expect(isRunning(job)).toBe(true);
    process.kill(job, 'SIGKILL');
  });
});
