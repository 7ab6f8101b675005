// Real processes below one that stands for the launcher: what they use is counted, also after they have ended.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { cpuOf, MemoryReader, type TaskUse, TaskUseReader } from '../../src/native/process-use.ts';
import { until } from '../launch/harness.ts';

const MIB = 2 ** 20;
const TOKEN = 'token-of-usage-test';

/** A shell that stands for the launcher: it runs each line that it is given, and answers `done` when it is asked to. */
interface Launcher {
  readonly pid: number;
  /** Runs a line of shell and resolves when it has come to its end. */
  run(line: string): Promise<void>;
  read(): TaskUse | undefined;
  kill(): Promise<void>;
}

async function launcher(env: NodeJS.ProcessEnv = {}): Promise<Launcher> {
  const child = spawn('bash', ['--norc'], {
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
    env: { ...process.env, ...env },
  });
  const { pid = 0 } = child;
  onTestFinished(() => void (child.exitCode ?? child.signalCode ?? process.kill(-pid, 'SIGKILL')));
  const run = async (line: string): Promise<void> => {
    child.stdin?.write(`${line}\necho done\n`);
    await once(child.stdout ?? child, 'data');
  };
  // It reads its libraries first: that is no use of a task.
  await run(':');
  const reader = new TaskUseReader({ launcher: pid, self: process.pid, token: TOKEN });
  reader.read();
  return {
    pid,
    run,
    read: () => reader.read(),
    kill: async () => {
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}

/** Has so much memory, says so, and keeps it until a line comes. */
const holds = (mib: number): string =>
  `perl -e '$| = 1; $x = "x"; $x x= ${mib} << 20; print "ready\\n"; sleep 3600' | { read line; } &`;

describe('what the task uses', () => {
  it('is nothing before there is a task', async () => {
    expect((await launcher()).read()).toEqual({
      cpuS: 0,
      readBytes: 0,
      writtenBytes: 0,
      memory: { bytes: 0, peakBytes: 0 },
    });
  });

  it('is the memory of all its processes together', async () => {
    const one = await launcher();
    await one.run(holds(60));
    await one.run(holds(40));
    await until('both have it', () => (one.read()?.memory.bytes ?? 0) > 100 * MIB);
    expect(one.read()?.memory.bytes).toBeLessThan(300 * MIB);
  });

  it('is its CPU time, also of processes that have ended', async () => {
    const one = await launcher();
    await one.run(`perl -e 'while ((times)[0] < 0.3) {}'`);
    const ended = one.read();
    expect(ended?.cpuS).toBeGreaterThanOrEqual(0.25);
    await one.run(`perl -e 'while ((times)[0] < 0.2) {}'`);
    expect(one.read()?.cpuS).toBeGreaterThanOrEqual((ended?.cpuS ?? 0) + 0.15);
  });

  it('is what it reads and writes, also of processes that have ended', async () => {
    const one = await launcher();
    await one.run('head -c 20000000 /dev/zero > /dev/null');
    expect(one.read()).toMatchObject({
      readBytes: expect.closeTo(20_000_000, -6),
      writtenBytes: expect.closeTo(20_000_000, -6),
    });
  });

  it('counts nothing of the sidecar, which is a child of the launcher, too', async () => {
    const one = await launcher();
    await one.run(`${holds(50)} echo $! > /dev/null`);
    await until('it has it', () => (one.read()?.memory.bytes ?? 0) > 50 * MIB);
    const children = fs.readFileSync(`/proc/${one.pid}/task/${one.pid}/children`, 'utf8').trim().split(' ');
    const perl = children
      .map(Number)
      .find((pid) => fs.readFileSync(`/proc/${pid}/comm`, 'utf8') === 'perl\n');
    const reader = new TaskUseReader({ launcher: one.pid, self: perl ?? 0, token: TOKEN });
    expect(reader.read()?.memory.bytes).toBeLessThan(20 * MIB);
  });

  it('is known no more when the launcher is gone', async () => {
    const one = await launcher();
    await one.kill();
    expect(one.read()).toBeUndefined();
  });
});

describe('what a daemon has started for the task', () => {
  /** No child of the launcher's. */
  function rank(script: string): ChildProcess {
    const child = spawn('bash', ['-c', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, CAPTURED_RUN: TOKEN },
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    return child;
  }

  it('counts, and goes on to count when it has ended', async () => {
    const one = await launcher();
    const programs = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-usage-'));
    onTestFinished(() => fs.rmSync(programs, { recursive: true }));
    fs.copyFileSync('/bin/sleep', `${programs}/srun`);
    fs.chmodSync(`${programs}/srun`, 0o755);
    await one.run(`${programs}/srun 3600 &`);
    await until('srun runs', () => hasSrun(one.pid));
    const child = rank(`perl -e 'while ((times)[0] < 0.3) {}'; echo ready; sleep 3600`);
    await once(child.stdout ?? child, 'data');
    const before = one.read();
    expect(before?.cpuS).toBeGreaterThanOrEqual(0.25);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(one.read()?.cpuS).toBeGreaterThanOrEqual(before?.cpuS ?? Infinity);
  });

  function hasSrun(pid: number): boolean {
    return fs
      .readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
      .split(' ')
      .filter((child) => child.trim() !== '')
      .some((child) => fs.readFileSync(`/proc/${child}/comm`, 'utf8') === 'srun\n');
  }
});

describe('the memory of processes', () => {
  it('between two looks is seen by its peak', async () => {
    const script = `$| = 1; sub use_it { my $x = "x"; $x x= 80 << 20; undef $x } <STDIN>; use_it(); print "freed\\n"; <STDIN>`;
    const child = spawn('bash', ['-c', `exec perl -e '${script}'`], { stdio: ['pipe', 'pipe', 'inherit'] });
    onTestFinished(() => void child.kill('SIGKILL'));
    const reader = new MemoryReader();
    await until('it runs', () => reader.read([child.pid ?? 0]).bytes > 0);
    expect(reader.read([child.pid ?? 0]).peakBytes).toBeLessThan(40 * MIB);
    child.stdin?.write('\n');
    await once(child.stdout ?? child, 'data');
    const seen = reader.read([child.pid ?? 0]);
    expect(seen.peakBytes).toBeGreaterThan(80 * MIB);
    expect(seen.bytes).toBeLessThan(40 * MIB);
    // It was told: the next look tells what has happened since.
    expect(reader.read([child.pid ?? 0]).peakBytes).toBeLessThan(40 * MIB);
  });

  it('counts what they share once', async () => {
    // Each has all its memory when it speaks: a program that is still being loaded has less of it every time.
    const one = `perl -e '$| = 1; print "x"; sleep' &`;
    const child = spawn('bash', ['-c', `${one} ${one} ${one} wait`], {
      stdio: ['ignore', 'pipe', 'inherit'],
      detached: true,
    });
    const { pid = 0 } = child;
    onTestFinished(() => void process.kill(-pid, 'SIGKILL'));
    let spoken = 0;
    child.stdout?.on('data', (chunk: Buffer) => (spoken += chunk.length));
    await until('all have spoken', () => spoken === 3);
    const pids = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number);
    const alone = new MemoryReader().read(pids.slice(0, 1)).bytes;
    expect(new MemoryReader().read(pids).bytes).toBeLessThan(2 * alone);
  });

  it('of none is nothing', () => {
    expect(new MemoryReader().read([2 ** 22 + 1])).toEqual({ bytes: 0, peakBytes: 0 });
    expect(cpuOf(2 ** 22 + 1)).toBe(0);
  });
});
