// The socket on which a worker hears of pauses.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openControl, tellWorkers } from '../../../src/many/queue/control.ts';

let dir: string;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-queue-'));
});
afterEach(() => fs.rmSync(dir, { recursive: true, force: true }));

describe('the socket of a worker', () => {
  const env = (): NodeJS.ProcessEnv => ({ XDG_RUNTIME_DIR: dir });

  it('passes on a pause and its end', async () => {
    const did: unknown[] = [];
    const pausing = {
      pause: (...args: unknown[]) => void did.push(args),
      resume: (reason: string) => void did.push(reason),
    };
    const control = await openControl(pausing, { env: env(), log: { warn: () => undefined } });
    expect(await tellWorkers({ act: 'pause', how: 'stop', forMs: 5000 }, env())).toEqual([process.pid]);
    expect(await tellWorkers({ act: 'resume' }, env())).toEqual([process.pid]);
    expect(did).toEqual([['person', 'stop', 5000], 'person']);
    await control?.close();
    expect(await tellWorkers({ act: 'resume' }, env())).toEqual([]);
  });

  it('is not there if its directory cannot be ours, and then the worker goes on and says so', async () => {
    const sockets = path.join(dir, `capture-workers-${process.geteuid?.() ?? 0}`);
    // As in a sticky directory: what has the name cannot be taken away.
    fs.symlinkSync('/', sockets);
    const said: unknown[] = [];
    const pausing = { pause: () => undefined, resume: () => undefined };
    const log = { warn: (...args: unknown[]) => void said.push(args) };
    expect(await openControl(pausing, { env: env(), log })).toBeUndefined();
    expect(said).toEqual([
      [
        expect.stringContaining('capture worker pause cannot reach this worker'),
        { hint: expect.stringContaining('XDG_RUNTIME_DIR') },
      ],
    ]);
    await expect(tellWorkers({ act: 'resume' }, env())).rejects.toMatchObject({
      message: expect.stringContaining('is a link, or not a directory'),
      hint: expect.stringContaining('TMPDIR'),
    });
  });

  it('of a worker that was killed is removed', async () => {
    const uid = process.getuid?.() ?? 0;
    const sockets = path.join(dir, `capture-workers-${uid}`);
    fs.mkdirSync(sockets, { mode: 0o700 });
    // What a killed process leaves: a socket without a listener.
    const { spawnSync } = await import('node:child_process');
    const script = `require('node:net').createServer().listen(${JSON.stringify(`${sockets}/99.sock`)}, () => process.kill(process.pid, 'SIGKILL'))`;
    spawnSync(process.execPath, ['-e', script]);
    expect(fs.readdirSync(sockets)).toEqual(['99.sock']);
    expect(await tellWorkers({ act: 'resume' }, env())).toEqual([]);
    expect(fs.readdirSync(sockets)).toEqual([]);
  });
});
