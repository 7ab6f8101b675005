// A sidecar's process that was started: when it counts as gone, whoever lets go of the channel first.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startSharedSidecar, type StartedSidecar } from '../../src/launch/sidecar-start.ts';
import { sendSignal } from '../../src/native/processes.ts';

let dir: string;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-start-'));
});
afterEach(() => fs.rmSync(dir, { recursive: true, force: true }));

function start(script: string): StartedSidecar {
  const entry = path.join(dir, 'sidecar.cjs');
  fs.writeFileSync(entry, script);
  const lockFd = fs.openSync(path.join(dir, 'lock'), 'w');
  try {
    return startSharedSidecar(entry, { socket: 'none', lockFd, env: process.env, tasksAtOnce: 1 });
  } finally {
    fs.closeSync(lockFd);
  }
}

it('is gone when it has ended because we let go of it', async () => {
  const { child, gone } = start(`process.on('disconnect', () => process.exit(3)); process.send('here')`);
  await new Promise((resolve) => {
    child.once('message', resolve);
  });
  child.disconnect();
  expect(await gone).toBe('exit 3');
});

it('is gone when it was killed', async () => {
  const { child, gone } = start(`process.send('here'); process.on('message', () => undefined)`);
  await new Promise((resolve) => {
    child.once('message', resolve);
  });
  sendSignal(child.pid ?? 0, 'SIGKILL');
  expect(await gone).toBe('SIGKILL');
});

it('is gone only when its last message is heard', async () => {
  const { child, gone } = start(
    `for (let n = 1; n <= 200; n += 1) process.send({ n, text: 'x'.repeat(1000) }, undefined, undefined, () => n === 200 && process.exit(0))`,
  );
  const heard: unknown[] = [];
  child.on('message', (message) => heard.push(message));
  expect(await gone).toBe('exit 0');
  expect(heard).toHaveLength(200);
});
