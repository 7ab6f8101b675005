import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { verify, type VerifyJob } from '../../../src/sidecar/checkpoints/verify.ts';
import { OURSELVES } from '../../../src/sidecar/run/context.ts';
import { isAlive } from '../../e2e/support.ts';

let workdir: string;
beforeEach(() => {
  workdir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-verify-'));
});
afterEach(() => fs.rmSync(workdir, { recursive: true, force: true }));

const job = (command: string, more: Partial<VerifyJob> = {}): VerifyJob => ({
  command,
  workdir,
  generation: '2-7',
  caller: OURSELVES,
  signal: new AbortController().signal,
  ...more,
});

/** A check that never ends, and a process that it has started. */
const HANGS = 'sleep 600 & echo $! > pid; wait';

async function isStarted(): Promise<number> {
  for (;;) {
    const pid = Number(fs.existsSync(`${workdir}/pid`) ? fs.readFileSync(`${workdir}/pid`, 'utf8') : '');
    if (pid > 0) return pid;
    await pause(5);
  }
}

async function isGone(pid: number): Promise<void> {
  while (isAlive(pid)) await pause(5);
}

describe('the check', () => {
  it.each<[string, string, string | undefined]>([
    ['passes with 0', 'test "$CAPTURED_GENERATION" = 2-7 && test "$PWD" != /', undefined],
    ['fails with its status', 'exit 3', 'its check ended with 3'],
    ['fails when it cannot be found', 'no-such-program 2>&-', 'its check ended with 127'],
    ['fails when a signal ends it', 'kill -9 $$', 'its check was ended by SIGKILL'],
    ['fails when a real-time signal ends it', 'kill -34 $$', 'its check was ended by SIG34'],
  ])('%s', async (_, command, why) => {
    expect(await verify(job(command))).toBe(why);
  });

  it('is ended with all processes that it started when it takes too long', async () => {
    expect(await verify(job(HANGS, { limitMs: 500 }))).toBe('its check took longer than 500 ms');
    await isGone(await isStarted());
  });

  it('is ended with all processes that it started when nobody needs it any more', async () => {
    const stop = new AbortController();
    const verified = verify(job(HANGS, { signal: stop.signal }));
    const pid = await isStarted();
    stop.abort(new Error('enough'));
    await expect(verified).rejects.toThrow('enough');
    await isGone(pid);
  });
});
