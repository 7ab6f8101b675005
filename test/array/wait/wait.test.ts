// Runs of `capture wait` over a store that changes meanwhile.
import { once } from 'node:events';
import fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Listener, openListener } from '../../notify/listener.ts';
import { run, start } from '../ran.ts';
import { openStoreOfRecords, STORE_KINDS, type StoreOfRecords } from '../store-of-records.ts';

let stored: StoreOfRecords;
let listener: Listener;
beforeEach(async () => {
  listener = await openListener();
});
afterEach(async () => {
  await stored.close();
  await listener.close();
});

const done = (index: string): void => stored.record({ index, attempt: 1, seq: 2, kind: 'done' });
const failed = (index: string): void =>
  stored.record({ index, attempt: 1, seq: 2, kind: 'failed', status: 3 });

describe.each(STORE_KINDS)('capture wait on %s', (kind) => {
  beforeEach(async () => {
    stored = await openStoreOfRecords(kind);
  });

  it('ends at once if all are done, or one has failed, and says so to whom it is to notify', async () => {
    done('0');
    expect(await run('wait', stored, '--notify', listener.url)).toMatchObject({ status: 0 });
    failed('1');
    const ran = await run('wait', stored, '--array', '0-1', '--notify', listener.url);
    expect(ran.status).toBe(1);
    expect(ran.stderr).toContain('2 indices: 1 failed, 1 done');
    expect(listener.got).toEqual([
      expect.objectContaining({ event: 'all-done', status: 0, text: 't: 1 index: 1 done' }),
      expect.objectContaining({
        event: 'failed',
        status: 1,
        counts: expect.objectContaining({ failed: 1, done: 1 }),
      }),
    ]);
  });

  it('waits for those that run, are to be run again, or have not begun', async () => {
    stored.record({ index: '0', attempt: 1, seq: 0, kind: 'started' });
    stored.record({ index: '1', attempt: 1, seq: 2, kind: 'preempted' });
    const child = start('wait', stored, ['--array', '0-2', '--every', '1s']);
    if (child.stderr === null) throw new Error('no stderr');
    const told = text(child.stderr);
    await once(child.stderr, 'data');
    done('0');
    stored.record({ index: '1', attempt: 2, seq: 2, kind: 'done' });
    done('2');
    await once(child, 'close');
    expect(child.exitCode).toBe(0);
    expect(await told).toContain('3 indices: 3 done');
  });

  it('waits for an array of which nothing has begun, if --array says that it will', async () => {
    expect(await run('wait', stored)).toMatchObject({ status: 66 });
    const child = start('wait', stored, ['--array', '0', '--every', '1s']);
    if (child.stderr === null) throw new Error('no stderr');
    const [first] = (await once(child.stderr, 'data')) as [Buffer];
    expect(String(first)).toContain('none of the indices has begun');
    done('0');
    await once(child, 'close');
    expect(child.exitCode).toBe(0);
  });

  it('gives up after --timeout, with the status of timeout(1)', async () => {
    const late = ['--array', '0-1', '--timeout', '1s', '--every', '1s'];
    expect(await run('wait', stored, ...late)).toMatchObject({ status: 124 });
    done('0');
    const ran = await run('wait', stored, ...late);
    expect(ran.status).toBe(124);
    expect(ran.stderr).toContain('not all are done after 1.0 s: 2 indices: 1 missing, 1 done');
  });

  it.each([
    ['preempted', { index: '1', attempt: 1, seq: 2, kind: 'preempted' }, 0],
    ['stale', { index: '1', attempt: 1, seq: 1, kind: 'started' }, 5 * 3_600_000],
    ['running', { index: '1', attempt: 1, seq: 1, kind: 'started' }, 0],
  ] as const)('waits for one that is %s', async (state, record, agoMs) => {
    done('0');
    stored.record(record, Date.now() - agoMs);
    const ran = await run('wait', stored, '--timeout', '1s');
    expect(ran.status).toBe(124);
    expect(ran.stderr).toContain(`1 ${state}, 1 done`);
    const hint = `try: nothing of it runs any more: see why with capture status ${stored.url}, and run again`;
    expect(ran.stderr.includes(hint)).toBe(state === 'stale');
  });

  it('does not wait for the others with --fail-fast', async () => {
    failed('0');
    expect(await run('wait', stored, '--array', '0-9', '--fail-fast')).toMatchObject({ status: 1 });
  });
});

it('waits for a directory that is not mounted for a while, and says so once', async () => {
  stored = await openStoreOfRecords('a directory');
  const dir = fileURLToPath(stored.url);
  stored.record({ index: '0', attempt: 1, seq: 0, kind: 'started' });
  const child = start('wait', stored, ['--every', '1s']);
  if (child.stderr === null) throw new Error('no stderr');
  const told = text(child.stderr);
  await once(child.stderr, 'data');
  fs.renameSync(dir, `${dir}-away`);
  await once(child.stderr, 'data');
  fs.renameSync(`${dir}-away`, dir);
  done('0');
  await once(child, 'close');
  expect(child.exitCode).toBe(0);
  const lines = (await told).split('\n').map((line) => line.replace(/^\S+ /, ''));
  expect(lines).toEqual([
    'capture: 1 index: 1 running',
    expect.stringContaining(`capture: warning: still trying ${stored.url}, for 3`),
    expect.stringContaining('try: '),
    expect.stringMatching(/^capture: the store works again, after /),
    'capture: 1 index: 1 done',
    '',
  ]);
});
