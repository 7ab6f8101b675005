import fs from 'node:fs';
import { describe, expect, test } from 'vitest';
import { listenForSignals } from '../../src/launch/signals.ts';
import { JOB_SIGNALS } from '../../src/model/relay.ts';
import { eachInItsLab, fixture, stateOf, until } from './harness.ts';
import type { Capture, CaptureOptions, Lab, Launcher } from './harness.ts';

let launcher: Launcher;
let lab: Lab;
eachInItsLab((made, built) => {
  lab = made;
  launcher = built;
});

/** A task that records its signals and ends at USR2; resolves when it runs. */
async function recording(
  options: CaptureOptions = {},
  script = 'exec "$@"',
): Promise<Capture & { readonly task: number; readonly sidecar: number }> {
  const task = [process.execPath, fixture('record-signals.mjs'), 'signals', 'SIGUSR2', 'SIGTSTP'];
  const capture = lab.shell(script, task, options);
  await until('task runs', () => lab.lines('signals').includes('ready') && lab.heard().length >= 2);
  const started = lab.heard().find((message) => message.kind === 'task-started');
  return { ...capture, task: started?.pid ?? 0, sidecar: started?.sidecar ?? 0 };
}

/** Ends the task with a signal that comes after all that was sent before it; what it got until then. */
async function received(capture: Capture): Promise<readonly string[]> {
  process.kill(capture.pid, 'SIGUSR2');
  await capture.status;
  return lab.lines('signals').slice(1, -1);
}

const ENDING = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGXCPU', 'SIGALRM', 'SIGPWR'] as const;

describe('a signal', () => {
  test.each([...ENDING, 'SIGWINCH', 'SIGCONT'] as const)(
    '%s to the launcher alone reaches the task once',
    async (signal) => {
      const capture = await recording();
      process.kill(capture.pid, signal);
      await until('relayed', () => lab.lines('signals').includes(signal));
      expect(await received(capture)).toEqual([signal]);
    },
  );

  test.each(ENDING)('%s to every process of the job reaches the task once', async (signal) => {
    const capture = await recording();
    for (const pid of [capture.pid, capture.task, capture.sidecar]) process.kill(pid, signal);
    await until('received', () => lab.lines('signals').includes(signal));
    expect(await received(capture)).toEqual([signal]);
  });

  test('that the sidecar receives before the launcher is taken for the same', async () => {
    const capture = await recording();
    for (const pid of [capture.sidecar, capture.task]) process.kill(pid, 'SIGTERM');
    await until('received', () => lab.lines('signals').includes('SIGTERM'));
    process.kill(capture.pid, 'SIGTERM');
    expect(await received(capture)).toEqual(['SIGTERM']);
  });

  test("to the launcher's process group reaches the task once", async () => {
    const capture = await recording({}, 'exec setsid "$@"');
    process.kill(-capture.pid, 'SIGTERM');
    await until('received', () => lab.lines('signals').includes('SIGTERM'));
    expect(await received(capture)).toEqual(['SIGTERM']);
  });

  test('reaches every process of the task, not only its first', async () => {
    const capture = lab.capture([fixture('record-twice.sh'), 'caught', 'go']);
    await until('both run', () => lab.lines('caught').filter((line) => line.endsWith('ready')).length === 2);
    process.kill(capture.pid, 'SIGTERM');
    await until('both received', () => lab.lines('caught').length === 4);
    fs.writeFileSync(lab.file('go'), '');
    await capture.status;
    expect(new Set(lab.lines('caught').slice(2))).toEqual(new Set(['inner SIGTERM', 'outer SIGTERM']));
  });

  test('is told to the sidecar, and SIGTERM is the last call', async () => {
    const capture = await recording();
    process.kill(capture.pid, 'SIGINT');
    process.kill(capture.pid, 'SIGTERM');
    await received(capture);
    const told = lab.heard().filter((message) => message.kind === 'task-signalled');
    const lastCalls = Object.fromEntries(told.map(({ signal, lastCall }) => [signal, lastCall]));
    expect(lastCalls).toEqual({ SIGINT: false, SIGTERM: true, SIGUSR2: false });
  });
});

describe('SIGTERM', () => {
  test('makes the run preempted, with a deadline after the grace', async () => {
    const capture = await recording({ settings: { graceMs: 60_000 } });
    const beforeMs = Date.now();
    process.kill(capture.pid, 'SIGTERM');
    await received(capture);
    const ended = lab.heard().find((message) => message.kind === 'task-ended');
    expect(ended).toMatchObject({ preempted: true, end: { code: 0 } });
    // Its clock was set once, by a time of day that somebody may be setting right now.
    expect(ended?.deadlineMs).toBeGreaterThanOrEqual(beforeMs - 1000 + 60_000);
  });

  test('that the task ignores is followed by SIGKILL while there is still grace to drain', async () => {
    const capture = await recording({ settings: { graceMs: 6000 } });
    process.kill(capture.pid, 'SIGTERM');
    expect(await capture.status).toBe(137);
    const ended = lab.heard().find((message) => message.kind === 'task-ended');
    expect(ended).toMatchObject({ preempted: true, end: { signal: 'SIGKILL' } });
    expect(ended?.end.atMs).toBeLessThan(ended?.deadlineMs ?? 0);
  });

  test('during the final drain tells the sidecar to hurry and is no preemption', async () => {
    const capture = lab.capture(['true'], { sidecar: { drain: 'until-noticed' } });
    await until('drain', () => lab.heard().some((message) => message.kind === 'task-ended'));
    process.kill(capture.pid, 'SIGTERM');
    expect(await capture.status).toBe(0);
    expect(lab.heard().find((message) => message.kind === 'task-ended')).toMatchObject({ preempted: false });
    expect(lab.heard().find(({ kind }) => kind === 'noticed')).toMatchObject({
      deadlineMs: expect.any(Number) as unknown,
    });
  });

  test.each([
    ['SIGTERM', 75],
    ['SIGINT', 130],
    ['SIGHUP', 129],
  ] as const)(
    'or like it, here %s, before the task was started ends with %i and starts nothing',
    async (signal, status) => {
      const capture = lab.capture(['touch', 'started'], { sidecar: { opening: 'none' } });
      await until('restoring', () => lab.heard().length === 1);
      process.kill(capture.pid, signal);
      expect(await capture.status).toBe(status);
      expect(lab.heard().map((message) => message.kind)).toEqual(['start', 'task-not-started']);
    },
  );
});

describe('a caller that blocks signals', () => {
  test.each([
    ['', 'USR1,XCPU', (1n << 9n) | (1n << 23n)],
    ['trap "" HUP; ', 'ALRM', 1n << 13n],
  ])('%shas them blocked in the task: %s', async (before, names, mask) => {
    // No shell: dash unblocks all signals of what it starts.
    const show = ['grep', '-E', 'SigBlk|SigIgn', '/proc/self/status'];
    const capture = lab.shell(`${before}exec env --block-signal=${names} "$@"`, show);
    expect(await capture.status).toBe(0);
    const maskOf = (name: string): bigint =>
      BigInt(`0x${new RegExp(`^${name}:\\s*(\\S+)$`, 'm').exec(capture.stdout())?.[1]}`);
    expect(maskOf('SigBlk')).toBe(mask);
    expect(maskOf('SigIgn') & 1n).toBe(before === '' ? 0n : 1n);
  });
});

describe('under nohup', () => {
  test('neither the launcher nor the task sees SIGHUP', async () => {
    const capture = await recording({}, 'exec nohup "$@"');
    process.kill(capture.pid, 'SIGHUP');
    process.kill(capture.pid, 'SIGUSR1');
    await until('relayed', () => lab.lines('signals').includes('SIGUSR1'));
    expect(await received(capture)).toEqual(['SIGUSR1']);
    const told = lab.heard().filter((message) => message.kind === 'task-signalled');
    expect(told.map((message) => message.signal)).not.toContain('SIGHUP');
  });

  test('a task that does not care outlives SIGHUP', async () => {
    const script = 'grep SigIgn /proc/self/status >ignored; until [ -e go ]; do sleep 0.05; done; exit 5';
    const capture = lab.shell('exec nohup "$@"', ['sh', '-c', script]);
    await until('task runs', () => lab.lines('ignored').length === 1 && lab.heard().length === 2);
    expect(lab.lines('ignored')[0]).toMatch(/1$/);
    const started = lab.heard().find((message) => message.kind === 'task-started');
    process.kill(started?.pid ?? 0, 'SIGHUP');
    fs.writeFileSync(lab.file('go'), '');
    expect(await capture.status).toBe(5);
  });
});

describe('a stop', () => {
  test('of the launcher stops the task, and SIGCONT continues both', async () => {
    const capture = lab.capture(['sh', '-c', 'echo $$ >pid; until [ -e go ]; do :; done']);
    await until('task runs', () => lab.lines('pid').length === 1 && lab.heard().length === 2);
    const task = Number(lab.lines('pid')[0]);
    process.kill(capture.pid, 'SIGTSTP');
    await until('both stopped', () => stateOf(capture.pid) === 'T' && stateOf(task) === 'T');
    process.kill(capture.pid, 'SIGCONT');
    await until('both run', () => stateOf(capture.pid) !== 'T' && stateOf(task) !== 'T');
    process.kill(capture.pid, 'SIGTERM');
    expect(await capture.status).toBe(143);
  });

  test('gives the stopped time back to a task that has been asked to end', async () => {
    const capture = await recording({ settings: { graceMs: 3000 } });
    process.kill(capture.pid, 'SIGTERM');
    await until('asked', () => lab.lines('signals').includes('SIGTERM'));
    const askedAtMs = Date.now();
    process.kill(capture.pid, 'SIGTSTP');
    await until('stopped', () => stateOf(capture.pid) === 'T');
    // Longer than the task's share of the grace: the clock must have gone on for the lengthening to show.
    await until('the grace has passed', () => Date.now() > askedAtMs + 3000);
    process.kill(capture.pid, 'SIGCONT');
    await until('continued', () => lab.lines('signals').includes('SIGCONT'));
    expect(await received(capture)).toEqual(['SIGTERM', 'SIGTSTP', 'SIGCONT']);
    expect(await capture.status).toBe(0);
  });

  test('that is taken back before it took place leaves everything running', async () => {
    const capture = await recording();
    process.kill(capture.pid, 'SIGTSTP');
    await until('the task is asked to stop', () => lab.lines('signals').includes('SIGTSTP'));
    // Held until its time to stop is past: then it finds that and SIGCONT at once.
    process.kill(capture.pid, 'SIGSTOP');
    const heldAtMs = Date.now();
    await until('its time to stop is past', () => Date.now() > heldAtMs + 100);
    process.kill(capture.pid, 'SIGCONT');
    await until('continued', () => lab.lines('signals').includes('SIGCONT'));
    expect(await received(capture)).toEqual(['SIGTSTP', 'SIGCONT']);
    expect(await capture.status).toBe(0);
  });
});

describe("Node's debugger", () => {
  // Without the shim, whose flags already keep the debugger from listening.
  test('is never opened by SIGUSR1', async () => {
    const capture = await recording({}, `shift; exec ${process.execPath} ${launcher.program} "$@"`);
    process.kill(capture.pid, 'SIGUSR1');
    await until('relayed', () => lab.lines('signals').includes('SIGUSR1'));
    await received(capture);
    expect(capture.stderr()).not.toContain('Debugger listening');
  });

  test('that was opened before our first line is closed', async () => {
    const task = ['sh', '-c', 'for fd in /proc/$PPID/fd/*; do readlink $fd; done; cat /proc/net/tcp'];
    const script = `shift; exec ${process.execPath} --inspect=127.0.0.1:0 ${launcher.program} "$@"`;
    const capture = lab.shell(script, task);
    await capture.status;
    expect(capture.stderr()).toContain('Debugger listening');
    expect(listeningSockets(capture.stdout())).toEqual([]);
  });
});

/** Inodes of listening sockets (proc_net(5): state 0A) among the links of a process. */
function listeningSockets(text: string): readonly string[] {
  const own = new Set([...text.matchAll(/^socket:\[(\d+)\]$/gm)].map((match) => match[1]));
  const listening = [...text.matchAll(/^ *\d+: \S+ \S+ 0A (?:\S+ +){5}(\d+)/gm)].map(
    (match) => match[1] ?? '',
  );
  return listening.filter((inode) => own.has(inode));
}

test('after the end a signal changes nothing: its default action would end us with another status', () => {
  const before = new Map(JOB_SIGNALS.map((signal) => [signal, process.listeners(signal)]));
  const heard: string[] = [];
  listenForSignals(new Set(), (signal) => heard.push(signal)).close();
  for (const signal of JOB_SIGNALS) {
    const added = process.listeners(signal).filter((one) => before.get(signal)?.includes(one) !== true);
    expect(added, signal).toHaveLength(1);
    added[0]?.(signal);
    process.removeListener(signal, added[0] as NodeJS.SignalsListener);
  }
  expect(heard).toEqual([]);
});
