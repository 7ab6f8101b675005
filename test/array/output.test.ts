// stdout of the commands on an array, read by somebody who takes their time.
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { start } from './ran.ts';
import { openStoreOfRecords } from './store-of-records.ts';

it('is written to its end, however slowly it is read', async () => {
  const stored = await openStoreOfRecords('a directory');
  stored.record({ index: '0', attempt: 1, seq: 1, kind: 'done' });
  const child = start('status', stored, ['--json', '--array', '0-9999']);
  const closed = once(child, 'close');
  let text = '';
  for await (const chunk of child.stdout ?? []) {
    text += String(chunk);
    await pause(5);
  }
  await closed;
  await stored.close();
  expect((JSON.parse(text) as { indices: unknown[] }).indices).toHaveLength(10_000);
  expect(child.exitCode).toBe(1);
});
