import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import os from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { endOf, endOfChild, numberOfSignal, openPidfd, reapedChild } from '../../src/native/ended.ts';
import { readStat, sendSignal } from '../../src/native/processes.ts';
import { until } from '../launch/harness.ts';

/** Linux 6.15 or later. */
const [major = 0, minor = 0] = os.release().split('.').map(Number);
const tells = major > 6 || (major === 6 && minor >= 15);

describe('a pidfd', () => {
  it.each([
    ['exit 7', { code: 7, signal: undefined }],
    ['exit 0', { code: 0, signal: undefined }],
    ['kill -34 $$', { code: undefined, signal: 'SIG34' }],
    ['kill -9 $$', { code: undefined, signal: 'SIGKILL' }],
  ])('says how a process ended that somebody else waited for: %s', async (script, ended) => {
    const child = spawn('sh', ['-c', `read go; ${script}`], { stdio: ['pipe', 'ignore', 'inherit'] });
    const pidfd = openPidfd(child.pid ?? 0);
    expect(pidfd?.ended()).toBeUndefined();
    child.stdin?.end('\n');
    await once(child, 'exit');
    expect(pidfd?.ended()).toEqual(tells ? ended : undefined);
    pidfd?.close();
  });

  it.each([
    ['exit 7', { code: 7, signal: undefined }],
    ['kill -9 $$', { code: undefined, signal: 'SIGKILL' }],
  ])('says how a process ended that nobody has waited for yet: %s', async (script, ended) => {
    // `exec sleep` never waits for what the shell has started.
    const parent = spawn('sh', ['-c', `sh -c 'sleep 0.1; ${script}' & echo $!; exec sleep 3600`]);
    onTestFinished(() => void parent.kill('SIGKILL'));
    const [line] = await once(parent.stdout, 'data');
    const pidfd = openPidfd(Number(String(line)));
    while (pidfd?.ended() === undefined) await pause(10);
    expect(pidfd.ended()).toEqual(ended);
    pidfd.close();
  });

  it('of a process that is gone cannot be had', async () => {
    const child = spawn('true');
    await once(child, 'exit');
    expect(openPidfd(child.pid ?? 0)).toBeUndefined();
  });
});

const shell = (script: string): ChildProcess => spawn('sh', ['-c', script], { stdio: 'ignore' });
const numbers = (from: number, to: number): readonly number[] =>
  Array.from({ length: to - from + 1 }, (_, n) => from + n);
/** What stops a process, or leaves it alone (signal(7)). */
const { SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH } = os.constants.signals;
const harmless = new Set([SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH]);
const SLEEP = new Int32Array(new SharedArrayBuffer(4));
const nameOf = (number: number): string =>
  Object.entries(os.constants.signals).find(([, one]) => one === number)?.[0] ?? `SIG${number}`;

describe('the end of a child', () => {
  it.each([0, 1, 34, 64, 127, 128, 162, 255])('is its exit status: %i', async (code) => {
    expect(await endOfChild(shell(`exit ${code}`))).toEqual({ code, signal: undefined });
  });

  it('is the signal that ended it, each from 1 to 64', async () => {
    for (const number of numbers(1, 64).filter((one) => !harmless.has(one))) {
      const child = shell(`ulimit -c 0; kill -${number} $$`);
      expect(await endOfChild(child)).toEqual({ code: undefined, signal: nameOf(number) });
    }
  });

  it('is told when the child ended before anybody looked', async () => {
    const child = shell('kill -40 $$');
    // In this turn of the event loop: libuv must not see it.
    while (readStat(child.pid ?? 0)?.state !== 'Z') Atomics.wait(SLEEP, 0, 0, 5);
    expect(await endOfChild(child)).toEqual({ code: undefined, signal: 'SIG40' });
  });

  // Not by SIGTSTP: in an orphaned process group, as below a daemon, that stops nobody (setpgid(2)).
  it('is not that it is stopped', async () => {
    const child = shell('kill -STOP $$; exit 7');
    const { pid = 0 } = child;
    let isOver = false;
    const ended = endOfChild(child).finally(() => (isOver = true));
    await until('stopped', () => readStat(pid)?.state === 'T');
    // A SIGCHLD for a child that ended and one for this one, which stopped, look the same.
    await endOfChild(shell('exit 0'));
    expect(isOver).toBe(false);
    sendSignal(pid, 'SIGCONT');
    expect(await ended).toEqual({ code: 7, signal: undefined });
  });

  it('takes no other child of Node from it', async () => {
    const mine = Promise.all(numbers(1, 8).map(() => endOfChild(shell('kill -64 $$'))));
    const others = await Promise.all(numbers(1, 8).map((code) => once(shell(`exit ${code}`), 'exit')));
    expect(others.map(([code]: unknown[]) => code)).toEqual(numbers(1, 8));
    expect(new Set((await mine).map(({ signal }) => signal))).toEqual(new Set(['SIG64']));
  });

  it('is the error of one that could not be started', async () => {
    await expect(endOfChild(spawn('/no/such/program'))).rejects.toMatchObject({ code: 'ENOENT' });
    await expect(endOfChild(spawn('/etc/passwd'))).rejects.toMatchObject({ code: 'EACCES' });
  });

  it('comes with the CPU time and the highest memory of it and of its own children', async () => {
    const used = `perl -e '$x = "x"; $x x= 70 << 20; while ((times)[0] < 0.2) {}'`;
    const { ended, usage } = await reapedChild(shell(`${used}; exit 3`));
    expect(ended).toEqual({ code: 3, signal: undefined });
    expect(usage?.cpuS).toBeGreaterThanOrEqual(0.2);
    expect(usage?.cpuS).toBeLessThan(5);
    expect(usage?.maxRssBytes).toBeGreaterThan(70 * 2 ** 20);
    expect(usage?.maxRssBytes).toBeLessThan(300 * 2 ** 20);
  });

  it('leaves no listener behind', async () => {
    const before = process.listenerCount('SIGCHLD');
    await endOfChild(shell('exit 0'));
    expect(process.listenerCount('SIGCHLD')).toBe(before);
  });
});

describe('a wait status', () => {
  it.each([
    [0x0000, { code: 0, signal: undefined }],
    [0xff00, { code: 255, signal: undefined }],
    [0x0009, { code: undefined, signal: 'SIGKILL' }],
    [0x0086, { code: undefined, signal: 'SIGABRT' }],
    [0x0022, { code: undefined, signal: 'SIG34' }],
    [0x0040, { code: undefined, signal: 'SIG64' }],
  ])('0x%s is an exit code, or a signal with or without a core', (status, ended) => {
    expect(endOf(status)).toEqual(ended);
  });

  it('of an exit is its code, from 0 to 255', () => {
    for (let code = 0; code <= 255; code++) expect(endOf(code << 8)).toEqual({ code, signal: undefined });
  });
});

describe('a signal', () => {
  it('has one number for each name that a wait status gives it, from 1 to 64', () => {
    for (let number = 1; number <= 64; number++) {
      const { signal = '' } = endOf(number);
      expect(numberOfSignal(signal)).toBe(number);
    }
  });

  it.each(['', 'SIG', 'SIGNONE', 'TERM', '34'])('is never made of another word: %j', (name) => {
    expect(() => numberOfSignal(name)).toThrow('is no signal');
  });
});
