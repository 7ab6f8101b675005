// stdout of the commands on an array: read by somebody who takes their time, or on a disk that is full.
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { text } from 'node:stream/consumers';
import { spawn } from 'node:child_process';
import { BIN } from '../e2e/support.ts';
import { start } from './ran.ts';
import { openStoreOfRecords } from './store-of-records.ts';

it('is written to its end, however slowly it is read', async () => {
  const stored = await openStoreOfRecords('a directory');
  stored.record({ index: '0', attempt: 1, seq: 1, kind: 'done' });
  const child = start('status', stored, ['--json', '--array', '0-9999']);
  const closed = once(child, 'close');
  let read = '';
  for await (const chunk of child.stdout ?? []) {
    read += String(chunk);
    await pause(5);
  }
  await closed;
  await stored.close();
  expect((JSON.parse(read) as { indices: unknown[] }).indices).toHaveLength(10_000);
  expect(child.exitCode).toBe(1);
});

it.each([['status'], ['status --json'], ['ls'], ['status --help']])(
  'is known not to be whole if the disk is full: %s',
  async (words) => {
    const stored = await openStoreOfRecords('a directory');
    stored.record({ index: '0', attempt: 1, seq: 1, kind: 'done' });
    const child = spawn('sh', ['-c', `exec '${BIN}' ${words} '${stored.url}' >/dev/full`], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const [said] = await Promise.all([text(child.stderr), once(child, 'close')]);
    await stored.close();
    expect(said).toContain('cannot write to stdout: ENOSPC');
    expect(child.exitCode).toBe(70);
  },
);
