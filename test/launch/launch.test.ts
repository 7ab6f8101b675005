import fs from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { ToSidecar } from '../../src/model/format/messages.ts';
import { eachInItsLab, fixture, until } from './harness.ts';
import type { Lab } from './harness.ts';

let lab: Lab;
eachInItsLab((made) => {
  lab = made;
});

describe('exit status', () => {
  test.each([
    ["passes the task's own status through", ['sh', '-c', 'exit 7'], 7],
    ['is 128+N when signal N ended the task', ['sh', '-c', 'kill -KILL $$'], 137],
    ['is 128+N for a signal without a core', ['sh', '-c', 'kill -USR1 $$'], 138],
    ['is 128+N for the first real-time signal', ['sh', '-c', 'kill -34 $$'], 162],
    ['is 128+N for the last real-time signal', ['sh', '-c', 'kill -64 $$'], 192],
    ['is 0 for success', ['true'], 0],
  ])('%s', async (_, task, expected) => {
    expect(await lab.capture(task).status).toBe(expected);
  });

  test.each([
    ['127 when there is no such command in PATH', 'no-such-command', 127],
    ['127 when there is no such file', './missing', 127],
    ['126 for a file that is not executable', './plain', 126],
    ['126 for a directory', './folder', 126],
  ])('is %s, and nothing is started', async (_, command, expected) => {
    fs.writeFileSync(lab.file('plain'), 'echo hi');
    fs.mkdirSync(lab.file('folder'));
    const capture = lab.capture([command]);
    expect(await capture.status).toBe(expected);
    expect(capture.stderr()).toContain(command.replace('./', ''));
    expect(capture.heard()).toEqual([]);
  });

  test("is the sidecar's verdict when it has one", async () => {
    expect(await lab.capture(['true'], { sidecar: { status: 74 } }).status).toBe(74);
  });

  test('is what the sidecar refuses with, and the task is not started', async () => {
    const opening = { kind: 'refused', status: 66, message: 'input in.dat is neither here nor in the store' };
    const capture = lab.capture(['touch', 'started'], { sidecar: { opening } });
    expect(await capture.status).toBe(66);
    expect(capture.stderr()).toContain('error: input in.dat is neither here nor in the store');
    expect(fs.existsSync(lab.file('started'))).toBe(false);
  });

  test('is 0 at once when the index is done already', async () => {
    const opening = { kind: 'done-already' };
    const capture = lab.capture(['touch', 'started'], { sidecar: { opening } });
    expect(await capture.status).toBe(0);
    expect(fs.existsSync(lab.file('started'))).toBe(false);
  });

  test('is 69 when the sidecar dies before it is ready', async () => {
    const capture = lab.capture(['touch', 'started'], { sidecar: { dieOn: 'start' } });
    expect(await capture.status).toBe(69);
    expect(capture.stderr()).toContain('the sidecar died before it was ready (SIGKILL)');
    expect(fs.existsSync(lab.file('started'))).toBe(false);
  });

  test('is 76 when another attempt has taken over, and the task is stopped', async () => {
    const capture = lab.capture(['sleep', '600'], { sidecar: { fence: true } });
    expect(await capture.status).toBe(76);
    expect(capture.heard().at(-1)).toMatchObject({ kind: 'task-ended', end: { signal: 'SIGTERM' } });
  });
});

describe('the task', () => {
  test('may be a script without a first line that names its interpreter', async () => {
    fs.writeFileSync(lab.file('script'), 'exit 9', { mode: 0o755 });
    expect(await lab.capture(['./script']).status).toBe(9);
  });

  test('reads our standard input and writes our standard output', async () => {
    const capture = lab.capture(['cat'], { stdin: 'pipe' });
    capture.child.stdin?.end('from the pipe');
    expect(await capture.status).toBe(0);
    expect(capture.stdout()).toBe('from the pipe');
  });

  test('runs in the work directory, under the name that the user typed', async () => {
    const capture = lab.capture(['sh', '-c', 'pwd; tr "\\0" " " </proc/$$/cmdline']);
    await capture.status;
    expect(capture.stdout()).toMatch(new RegExp(`^${lab.dir}\nsh -c `));
  });

  test('is told who it is, and never inherits our index or the variables of the shim', async () => {
    const env = { CAPTURE_INDEX: '3', KEPT: 'yes' };
    const shell = lab.shell('ulimit -Sn 512; trap "" HUP; exec 7</dev/null "$@"', ['env'], { env });
    await shell.status;
    const lines = shell.stdout().split('\n');
    const told = ['CAPTURED_INDEX=3', 'CAPTURED_ATTEMPT=1', 'CAPTURED_RESTORED=1-3'];
    expect(lines).toEqual(expect.arrayContaining([...told, 'KEPT=yes']));
    expect(lines.filter((line) => /^CAPTURE_|^CAPTURED_SOCKET|^NODE_CHANNEL/.test(line))).toEqual([]);
    expect(lines.some((line) => line.startsWith('CAPTURED_RUN='))).toBe(true);
  });

  test('leaves a pipe that capture and others share blocking', async () => {
    const look =
      'until grep -q task-started heard.jsonl; do sleep 0.05; done; cat /proc/self/fdinfo/1; touch go; wait';
    const script = `{ "$@" & ${look}; } | cat`;
    const shell = lab.shell(script, ['sh', '-c', 'until [ -e go ]; do sleep 0.05; done']);
    await shell.status;
    const flags = Number.parseInt(/^flags:\s*(\d+)/m.exec(shell.stdout())?.[1] ?? '', 8);
    expect(flags & 0o3).toBe(fs.constants.O_WRONLY);
    expect(flags & fs.constants.O_NONBLOCK).toBe(0);
  });

  test('gets open files above 2 that the caller passed on', async () => {
    fs.writeFileSync(lab.file('words'), 'passed on');
    const shell = lab.shell('exec 7<words; exec "$@"', ['sh', '-c', 'cat <&7']);
    expect(await shell.status).toBe(0);
    expect(shell.stdout()).toBe('passed on');
  });

  test('keeps the soft limit of open files that the caller had', async () => {
    const shell = lab.shell('ulimit -Sn 512; exec "$@"', ['sh', '-c', 'ulimit -Sn']);
    await shell.status;
    expect(shell.stdout()).toBe('512\n');
  });
});

describe('a sidecar that dies', () => {
  test('is replaced, learns what has happened, and the task does not notice', async () => {
    const capture = lab.capture([process.execPath, fixture('record-signals.mjs'), 'signals', 'SIGUSR2']);
    await until('task runs', () => lab.lines('signals').includes('ready') && capture.heard().length === 2);
    const [first] = capture.heard();
    process.kill(first?.sidecar ?? 0, 'SIGKILL');
    await until(
      'replacement told',
      () => capture.heard().filter((m) => m.kind === 'task-started').length === 2,
    );
    const again = capture.heard().slice(2);
    expect(again.map((message) => message.kind)).toEqual(['start', 'task-started']);
    expect(again[0]).toMatchObject({ attempt: 1 });
    expect(again[0]?.sidecar).not.toBe(first?.sidecar);
    capture.child.kill('SIGUSR2');
    expect(await capture.status).toBe(0);
    expect(lab.lines('signals')).toEqual(['ready', 'SIGUSR2']);
  });

  test('is replaced by one that hears of the last call, whatever signal came after it', async () => {
    const capture = lab.capture([process.execPath, fixture('record-signals.mjs'), 'signals', 'SIGUSR2']);
    await until('task runs', () => lab.lines('signals').includes('ready') && capture.heard().length === 2);
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      capture.child.kill(signal);
      await until(`${signal} relayed`, () => lab.lines('signals').includes(signal));
    }
    await until('told of both', () => capture.heard().length === 6);
    process.kill(capture.heard()[0]?.sidecar ?? 0, 'SIGKILL');
    await until('replacement told', () => capture.heard().length === 11);
    expect(capture.heard().slice(6)).toContainEqual(expect.objectContaining({ kind: 'stop-cause' }));
    const signalled = capture.heard().findLast(({ kind }) => kind === 'task-signalled');
    expect(signalled).toMatchObject({ signal: 'SIGTERM', lastCall: true });
    capture.child.kill('SIGUSR2');
    expect(await capture.status).toBe(0);
  });

  test('again and again is given up, and success is then 74', async () => {
    const capture = lab.capture(['sh', '-c', 'while [ ! -e go ]; do sleep 0.05; done'], {
      sidecar: { dieOn: 'task-started' },
    });
    await until('given up', () => capture.stderr().includes('nothing is stored any more'));
    fs.writeFileSync(lab.file('go'), '');
    expect(await capture.status).toBe(74);
    expect(capture.heard().filter((message) => message.kind === 'start')).toHaveLength(5);
  });

  test('is replaced by one that is told which children of ours have ended, as long as the task is none of them', async () => {
    const capture = lab.capture(['sh', '-c', 'until [ -e go ]; do :; done; exit 3'], {
      sidecar: { drain: 'until-noticed' },
    });
    const starts = (): readonly Extract<ToSidecar, { kind: 'start' }>[] =>
      capture.heard().flatMap((message) => (message.kind === 'start' ? message : []));
    const replaced = async (count: number): Promise<void> => {
      process.kill(capture.heard().at(-1)?.sidecar ?? 0, 'SIGKILL');
      await until('replaced', () => starts().length === count);
    };
    await until('begun', () => capture.heard().some((message) => message.kind === 'task-started'));
    await replaced(2);
    fs.writeFileSync(lab.file('go'), '');
    await until('drain', () => capture.heard().some((message) => message.kind === 'task-ended'));
    await replaced(3);
    expect(starts().map(({ launcherFaults }) => launcherFaults)).toEqual([
      undefined,
      expect.any(Number),
      undefined,
    ]);
    capture.child.kill('SIGTERM');
    expect(await capture.status).toBe(3);
  });

  test('while it drains is replaced and told the end again', async () => {
    const capture = lab.capture(['sh', '-c', 'exit 3'], { sidecar: { drain: 'until-noticed' } });
    await until('drain', () => capture.heard().some((message) => message.kind === 'task-ended'));
    process.kill(capture.heard()[0]?.sidecar ?? 0, 'SIGKILL');
    await until(
      'told again',
      () => capture.heard().filter((message) => message.kind === 'task-ended').length === 2,
    );
    expect(
      capture
        .heard()
        .slice(3)
        .map((message) => message.kind),
    ).toEqual(['start', 'task-started', 'task-ended']);
    capture.child.kill('SIGTERM');
    expect(await capture.status).toBe(3);
  });
});
