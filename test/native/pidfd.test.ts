import { spawn } from 'node:child_process';
import { once } from 'node:events';
import os from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openPidfd } from '../../src/native/pidfd.ts';

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
