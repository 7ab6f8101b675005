// What a notice does to the task: told at once where it makes use of that, else at the last moment.
import fs from 'node:fs';
import { describe, expect, test } from 'vitest';
import { handlesTerm } from '../../src/launch/notices.ts';
import { eachInItsLab, fixture, until } from './harness.ts';
import type { Capture, CaptureOptions, FakeSidecar, Lab } from './harness.ts';

let lab: Lab;
eachInItsLab((made) => {
  lab = made;
});

const STOP = { source: 'ec2', kind: 'stop', what: 'EC2 terminates this instance' };
const notice = (inMs?: number): NonNullable<FakeSidecar['says']>[number] => ({
  kind: 'notice',
  notice: STOP,
  inMs,
});
const FAR_MS = 600_000;

/** A task that handles the signals and ends at USR2. */
function handler(options: CaptureOptions, node = process.execPath): Capture {
  const sidecar = { ...options.sidecar, after: lab.file('signals') };
  return lab.capture([node, fixture('record-signals.mjs'), 'signals', 'SIGUSR2'], { ...options, sidecar });
}

/** A task that handles none, and ends when its file is there. */
function computes(options: CaptureOptions): Capture {
  return lab.capture(['sh', '-c', 'until [ -e stop ]; do sleep 0.05; done'], options);
}

const got = (capture: Capture, kind: string): readonly Record<string, unknown>[] =>
  capture.heard().filter((message) => message.kind === kind);

describe('a task that handles SIGTERM', () => {
  test('gets it at once, and the run is preempted', async () => {
    const capture = handler({ sidecar: { says: [notice(FAR_MS)] } });
    await until('told', () => lab.lines('signals').includes('SIGTERM'));
    process.kill(capture.pid, 'SIGUSR2');
    await capture.status;
    expect(capture.stderr()).toContain('EC2 terminates this instance; the task gets SIGTERM');
    expect(got(capture, 'task-signalled')[0]).toMatchObject({ signal: 'SIGTERM', lastCall: true });
    expect(got(capture, 'task-ended')).toMatchObject([{ preempted: true }]);
    const cause = { why: `notice (${STOP.source})`, reason: STOP.what };
    expect(got(capture, 'stop-cause')).toMatchObject([{ cause }]);
  });

  test('gets it once, however often the notice is told', async () => {
    const again = [notice(), notice(), notice()];
    const capture = handler({ sidecar: { says: again } });
    await until('told', () => lab.lines('signals').includes('SIGTERM'));
    process.kill(capture.pid, 'SIGUSR2');
    await capture.status;
    expect(lab.lines('signals').filter((line) => line === 'SIGTERM')).toHaveLength(1);
    expect(got(capture, 'noticed')).toHaveLength(1);
  });

  test.each([
    ['SIGINT', ['SIGINT']],
    ['none', []],
  ])('gets what --notice-signal %s says', async (tell, signals) => {
    const notices = { sources: [], signals: [], tell };
    const capture = handler({ sidecar: { says: [notice(FAR_MS)] }, settings: { notices } });
    await until('heard', () => got(capture, 'noticed').length === 1);
    process.kill(capture.pid, 'SIGUSR2');
    await capture.status;
    expect(lab.lines('signals').slice(1, -1)).toEqual(signals);
  });

  test('is no bare launcher: that would only end what it has started', async () => {
    const mpirun = lab.file('mpirun');
    fs.symlinkSync(process.execPath, mpirun);
    const capture = handler({ sidecar: { says: [notice(FAR_MS)] } }, mpirun);
    await until('heard', () => got(capture, 'noticed').length === 1);
    process.kill(capture.pid, 'SIGUSR2');
    await capture.status;
    expect(lab.lines('signals').slice(1, -1)).toEqual([]);
  });
});

describe('a task that does not handle SIGTERM', () => {
  test('computes on, and is ended in time for the drain', async () => {
    const capture = computes({ sidecar: { says: [notice(8000)] } });
    await capture.status;
    const [noticed] = got(capture, 'noticed');
    const [signalled] = got(capture, 'task-signalled');
    const [ended] = got(capture, 'task-ended');
    const deadlineMs = Number(noticed?.['deadlineMs']);
    expect(capture.stderr()).toContain('the task computes on until ');
    expect(ended).toMatchObject({ preempted: true, end: { signal: 'SIGTERM' }, deadlineMs });
    // A third of the window of 6 s is for the drain; the task is told 2 s before that.
    expect(Number(signalled?.['atMs'])).toBeGreaterThanOrEqual(deadlineMs - 2000 - 2000 - 50);
  });

  test('has more of the window when the drain is measured to be short', async () => {
    const says = [notice(17_000), { kind: 'drain-takes', ms: 10 }];
    const capture = computes({ sidecar: { says } });
    await capture.status;
    const deadlineMs = Number(got(capture, 'noticed')[0]?.['deadlineMs']);
    expect(Number(got(capture, 'task-signalled')[0]?.['atMs'])).toBeGreaterThanOrEqual(deadlineMs - 5050);
  });

  test('goes on when the notice is taken back', async () => {
    const says = [notice(), { kind: 'notice-withdrawn', notice: STOP }];
    const capture = computes({ sidecar: { says } });
    await until('taken back', () => got(capture, 'noticed').length === 2);
    fs.writeFileSync(lab.file('stop'), '');
    expect(await capture.status).toBe(0);
    expect(got(capture, 'noticed')[1]).not.toHaveProperty('deadlineMs');
    expect(got(capture, 'task-ended')).toMatchObject([{ preempted: false }]);
    expect(capture.stderr()).toContain('taken back: EC2 terminates this instance');
  });

  test('has the grace when the source names an instant that is past', async () => {
    const capture = computes({ sidecar: { says: [notice(-60_000)] } });
    await until('heard', () => got(capture, 'noticed').length === 1);
    expect(Number(got(capture, 'noticed')[0]?.['deadlineMs'])).toBeGreaterThan(Date.now() + 15_000);
    fs.writeFileSync(lab.file('stop'), '');
    await capture.status;
  });

  test('has less time when SIGTERM follows the notice', async () => {
    const capture = computes({ sidecar: { says: [notice(FAR_MS)] } });
    await until('heard', () => got(capture, 'noticed').length === 1);
    process.kill(capture.pid, 'SIGTERM');
    await capture.status;
    const [first, second] = got(capture, 'noticed').map((message) => Number(message['deadlineMs']));
    expect(first).toBeGreaterThan(Number(second) + FAR_MS / 2);
    expect(got(capture, 'task-ended')).toMatchObject([{ preempted: true, deadlineMs: second }]);
  });
});

describe('a signal that is a notice', () => {
  const notices = { sources: [], signals: ['SIGUSR1'], tell: 'auto' };

  test('is not relayed: the task gets SIGTERM', async () => {
    const capture = handler({ settings: { notices } });
    await until('ready', () => lab.lines('signals').includes('ready') && capture.heard().length >= 2);
    process.kill(capture.pid, 'SIGUSR1');
    await until('told', () => lab.lines('signals').includes('SIGTERM'));
    process.kill(capture.pid, 'SIGUSR2');
    await capture.status;
    expect(lab.lines('signals').slice(1, -1)).toEqual(['SIGTERM']);
    expect(got(capture, 'task-ended')).toMatchObject([{ preempted: true }]);
  });

  test('leaves a task to compute on that does not handle SIGTERM', async () => {
    const capture = computes({ settings: { notices } });
    await until('runs', () => got(capture, 'task-started').length === 1);
    process.kill(capture.pid, 'SIGUSR1');
    await until('heard', () => got(capture, 'noticed').length === 1);
    fs.writeFileSync(lab.file('stop'), '');
    expect(await capture.status).toBe(0);
    expect(got(capture, 'task-signalled')).toEqual([]);
  });
});

const CATCHES = 'Name:\tx\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000004000\n';
const CATCHES_NONE = 'Name:\tx\nSigIgn:\t0000000000004000\nSigCgt:\t0000000000000002\n';

test.each([
  ['a program that catches SIGTERM', CATCHES, 'sim', './sim\0-n\x003\0', true],
  ['one that does not', CATCHES_NONE, 'sim', './sim\0', false],
  ['one that has ended meanwhile', '', '', '', false],
  ['a bare launcher', CATCHES, 'mpirun', '/opt/mpi/bin/mpirun\0./sim\0', false],
  [
    'a bare launcher whose main thread has another name',
    CATCHES,
    'MainThread',
    '/opt/bin/mpirun\0./sim\0',
    false,
  ],
  ['a bare launcher that is a script', CATCHES, 'mpirun', '/usr/bin/python3\0/opt/bin/mpirun\0', false],
  ['a program that was given the name of a launcher', CATCHES, 'sim', './sim\0mpirun\0', true],
])('makes use of SIGTERM or not: %s', (_, status, comm, cmdline, expected) => {
  expect(handlesTerm(status, comm, cmdline)).toBe(expected);
});
