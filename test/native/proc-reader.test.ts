import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ProcReader } from '../../src/native/proc-reader.ts';

/** A shell with so many children, once all are there. */
async function parentOf(children: number): Promise<number> {
  const script = `for n in {1..${children}}; do sleep 3600 & done; echo ready; wait`;
  const parent = spawn('bash', ['-c', script], { stdio: ['ignore', 'pipe', 'inherit'], detached: true });
  onTestFinished(() => void process.kill(-(parent.pid ?? 0), 'SIGKILL'));
  await once(parent.stdout, 'data');
  return parent.pid ?? 0;
}

describe('a process', () => {
  it.each([1, 3, 900])('is read with all of its %i children, again and again', async (children) => {
    const reader = new ProcReader();
    const pid = await parentOf(children);
    for (let n = 0; n < 3; n += 1) expect(new Set(reader.read(pid)?.children).size).toBe(children);
    expect(reader.read(pid)).toMatchObject({ name: 'bash', parent: process.pid, threads: 1 });
    reader.close();
  });

  it('with threads is read with the children of each', async () => {
    const script = `
      const { Worker } = require('worker_threads');
      new Worker("require('child_process').spawn('sleep', ['3600']).on('spawn', () => console.log('ready'))", { eval: true });
      require('child_process').spawn('sleep', ['3600']);`;
    const parent = spawn(process.execPath, ['-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
      detached: true,
    });
    onTestFinished(() => void process.kill(-(parent.pid ?? 0), 'SIGKILL'));
    await once(parent.stdout, 'data');
    const reader = new ProcReader();
    expect(reader.read(parent.pid ?? 0)?.children).toHaveLength(2);
    expect(reader.read(parent.pid ?? 0, true)?.children).toHaveLength(1);
    reader.close();
  });

  it('with very many threads takes no more of our descriptors than others', async () => {
    const script = `
      require('child_process').spawn('sleep', ['3600']);
      require('fs').stat('.', () => console.log('ready'));
      process.stdin.resume();`;
    const parent = spawn(process.execPath, ['-e', script], {
      stdio: ['pipe', 'pipe', 'inherit'],
      detached: true,
      env: { ...process.env, UV_THREADPOOL_SIZE: '150' },
    });
    onTestFinished(() => void process.kill(-(parent.pid ?? 0), 'SIGKILL'));
    await once(parent.stdout, 'data');
    const before = fs.readdirSync('/proc/self/fd').length;
    const reader = new ProcReader();
    const facts = reader.read(parent.pid ?? 0);
    expect(facts?.threads).toBeGreaterThan(150);
    expect(facts?.children).toHaveLength(1);
    expect(fs.readdirSync('/proc/self/fd').length - before).toBeLessThanOrEqual(128);
    reader.close();
    expect(fs.readdirSync('/proc/self/fd')).toHaveLength(before);
  });

  it('that is gone cannot be read, whoever has its pid afterwards', async () => {
    const reader = new ProcReader();
    const child = spawn('sleep', ['3600']);
    expect(reader.read(child.pid ?? 0)?.state).toMatch(/[RSD]/);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(reader.read(child.pid ?? 0)).toBeUndefined();
    reader.close();
  });
});
