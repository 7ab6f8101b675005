// Runs of `capture prune` over what attempts have left.
import { once } from 'node:events';
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { indexDetails } from '../../../src/array/details.ts';
import { unionOf } from '../../../src/model/checkpoint/history.ts';
import { generationKeys } from '../../../src/model/checkpoint/retention.ts';
import { leaveBehind, leaveOther, objectsOf, Pushing, recordsOf } from '../left-behind.ts';
import { killedAtChange, run, start } from '../ran.ts';
import { openStoreOfRecords, STORE_KINDS, type StoreOfRecords } from '../store-of-records.ts';

let stored: StoreOfRecords;
afterEach(() => stored.close());

const prune = (...args: readonly string[]): ReturnType<typeof run> =>
  run('prune', stored, '--task-name', 't', ...args);

/** Parts that are never all there. */
async function* unending(signal: AbortSignal): AsyncGenerator<Uint8Array> {
  for (let part = 0; part < 2; part += 1) yield Buffer.alloc(5 * 2 ** 20);
  await once(signal, 'abort');
  throw new Error('aborted');
}

/** Keys of puts that are under way. */
function pending(): readonly string[] {
  if (stored.server !== undefined)
    return stored.server.pendingUploads().map((key) => key.replace('run7/', ''));
  const tmp = `${stored.url.slice('file://'.length)}/.capture-store/tmp`;
  const notes = fs.readdirSync(tmp).filter((name) => name.endsWith('.key'));
  return notes.map((name) => fs.readFileSync(`${tmp}/${name}`, 'utf8'));
}

const { signal } = new AbortController();

/** Keys that the next start of an index would look for. */
async function neededBy(index: string): Promise<readonly string[]> {
  const { attempts } = await indexDetails({ store: stored.store, taskName: 't' }, index, signal);
  return unionOf(attempts, undefined).generations.flatMap(generationKeys);
}

const checkpointsOf = (keys: readonly string[], index: string): readonly string[] =>
  keys.filter((key) => key.includes(`.t.${index}.`));

describe.each(STORE_KINDS)('capture prune of %s', (kind) => {
  let others: readonly string[];
  beforeEach(async () => {
    stored = await openStoreOfRecords(kind);
    await leaveBehind(stored, '0', { kind: 'done' });
    await leaveBehind(stored, '1', { kind: 'failed', status: 3 });
    others = await leaveOther(stored, '0');
  });

  it('deletes the checkpoints of what is done, also what no record names, and nothing else', async () => {
    const before = await objectsOf(stored);
    const ran = await prune();
    expect(ran).toMatchObject({ status: 0, stderr: '' });
    expect(ran.stdout).toMatch(/^deleted 6 objects of checkpoints \(\d+ B\)\n$/);
    const after = await objectsOf(stored);
    expect(after).toEqual(before.filter((key) => !key.includes('.t.0.')));
    expect(after).toEqual(expect.arrayContaining([...others, 'in.dat.0', 'r.dat.0', 'x.dat.0.partial-2']));
    expect(await neededBy('0')).toEqual([]);
    expect((await run('verify', stored, '--task-name', 't')).status).toBe(0);
    expect((await run('status', stored, '0', '--task-name', 't')).status).toBe(0);
    expect((await prune()).stdout).toBe('deleted 0 objects of checkpoints (0 B)\n');
  });

  it('says with --dry-run what it would delete, and changes nothing', async () => {
    const before = [await objectsOf(stored), await recordsOf(stored)];
    const would = await prune('--dry-run', '--checkpoints', '--keep', '1', '--partials', '--older', '--json');
    expect([await objectsOf(stored), await recordsOf(stored)]).toEqual(before);
    const did = await prune('--checkpoints', '--keep', '1', '--partials', '--older', '--json');
    const totals = { ...(JSON.parse(would.stdout) as object), dryRun: false };
    expect(JSON.parse(did.stdout)).toEqual(totals);
  });

  it('keeps the newest sets of each index with --keep, and drops what killed attempts have left', async () => {
    const before = await objectsOf(stored);
    const ran = await prune('--checkpoints', '--keep', '1', '--partials', '--older');
    expect(ran).toMatchObject({ status: 0, stderr: '' });
    const after = await objectsOf(stored);
    for (const index of ['0', '1']) {
      expect(checkpointsOf(after, index)).toEqual([
        `k.chk.t.${index}.2-2`,
        `md.log.t.${index}.2-2.1.zst`,
        `md.log.t.${index}.2-2.2.zst`,
      ]);
      expect([...(await neededBy(index))].toSorted()).toEqual(checkpointsOf(after, index));
    }
    // What index 1 has left may be whole: it is not done.
    const undone = before.filter((key) => /\.1\.partial/.test(key));
    expect(undone.length).toBeGreaterThan(0);
    expect(after.filter((key) => /partial|~/.test(key))).toEqual(
      [...others.filter((key) => /partial|~/.test(key)), ...undone].toSorted(),
    );
    expect((await run('verify', stored, '--task-name', 't')).status).toBe(0);
  });

  it('leaves alone what runs, what nobody knows the end of, and what has results that are incomplete', async () => {
    const again = new Pushing(stored, '0', 3);
    again.record(0, 'started');
    const killed = new Pushing(stored, '2', 1);
    killed.record(1, 'checkpoint', { generations: [await killed.generation(1)] }, Date.now() - 9 * 3_600_000);
    const lacking = new Pushing(stored, '3', 1);
    const left = [{ path: 'r.dat', why: 'only what attempt 1 left' }];
    lacking.record(2, 'failed', { generations: [await lacking.generation(1)], status: 74, left });
    const before = await objectsOf(stored);
    const ran = await prune();
    expect(ran.stderr).toContain('2 indices have not ended, and are left alone');
    expect(await objectsOf(stored)).toEqual(before);
  });

  it('gives up, with --uploads, the uploads of indices that have ended, and no other', async () => {
    new Pushing(stored, '5', 1).record(0, 'started');
    // The same number of another task, which runs.
    new Pushing(stored, '1', 2, 'u').record(0, 'started');
    const stop = new AbortController();
    const keys = ['r.dat.0', 'k.chk.t.0.3-1', 'r.dat.1', 'r.dat.5', 'big.dat'];
    const puts = keys.map((key) =>
      stored.store
        .put(key, unending(stop.signal), { meta: { push: key }, signal: stop.signal })
        .catch(() => undefined),
    );
    await vi.waitFor(() => expect(pending().toSorted()).toEqual(keys.toSorted()), 30_000);
    expect((await prune('--uploads', '--dry-run')).stdout).toBe('would delete 2 uploads\n');
    expect(pending()).toHaveLength(5);
    expect((await prune('--uploads')).stdout).toBe('deleted 2 uploads\n');
    expect(pending().toSorted()).toEqual(['big.dat', 'r.dat.1', 'r.dat.5']);
    stop.abort();
    await Promise.all(puts);
  });

  it('deletes nothing of an index with a record that cannot be read, and exits 1', async () => {
    stored.put('.capture/t/0/0001-000002.checkpoint.json', '{"damaged');
    const before = await objectsOf(stored);
    const ran = await prune();
    expect(ran.status).toBe(1);
    expect(ran.stderr).toMatch(/index 0: nothing is deleted: record \S+ cannot be used/);
    expect(await objectsOf(stored)).toEqual(before);
  });
});

describe('capture prune of an S3 server', () => {
  beforeEach(async () => {
    stored = await openStoreOfRecords('an S3 server');
    await leaveBehind(stored, '0', { kind: 'done' });
  });

  it('asks for one record of each attempt, the fence, and each object that goes whose it is', async () => {
    if (stored.server === undefined) throw new Error('no server');
    const before = stored.server.served.length;
    expect(await prune()).toMatchObject({ status: 0 });
    const asked = stored.server.served.slice(before).map(({ operation, key }) => `${operation} ${key}`);
    const ofIndex = asked.filter((line) => line.includes('/t/0/') || !line.includes('.capture/'));
    expect(ofIndex.filter((line) => line.startsWith('GetObject')).toSorted()).toEqual([
      'GetObject run7/.capture/t/0/0001-000002.checkpoint.json',
      'GetObject run7/.capture/t/0/0002-000003.done.json',
      'GetObject run7/.capture/t/0/0003-000000.started.json',
    ]);
    expect(ofIndex.filter((line) => line.startsWith('HeadObject')).toSorted()).toEqual([
      'HeadObject run7/k.chk.t.0.1-1',
      'HeadObject run7/k.chk.t.0.1-2',
      'HeadObject run7/k.chk.t.0.2-1',
      'HeadObject run7/k.chk.t.0.2-2',
      'HeadObject run7/md.log.t.0.2-2.1.zst',
      'HeadObject run7/md.log.t.0.2-2.2.zst',
    ]);
    expect(asked.filter((line) => line.includes('List')).length).toBeLessThanOrEqual(3);
  });

  it('leaves an object that a record names, and that is not ours', async () => {
    stored.put('k.chk.t.0.2-2', 'of somebody else');
    expect((await prune()).stdout).toMatch(/^deleted 5 objects/);
    expect(await objectsOf(stored)).toContain('k.chk.t.0.2-2');
  });

  it('deletes no object of an index that is started again while it looks', async () => {
    const again = new Pushing(stored, '0', 3);
    if (stored.server === undefined) throw new Error('no server');
    stored.server.fault = ({ operation, key }) => {
      if (operation === 'PutObject' && key.includes('.done.json')) again.record(0, 'started');
      return undefined;
    };
    const before = await objectsOf(stored);
    const ran = await prune();
    expect(ran.status).toBe(1);
    expect(ran.stderr).toContain('index 0: nothing is deleted: it was started again meanwhile');
    expect(await objectsOf(stored)).toEqual(before);
  });

  it('leaves, killed at any request, no record that names an object that is gone', async () => {
    const { server } = stored;
    if (server === undefined) throw new Error('no server');
    for (let at = 1; ; at += 1) {
      await leaveBehind(stored, String(at), { kind: 'done' });
      const isKilled = await killedAtChange(at, server, () =>
        start('prune', stored, ['--task-name', 't', '--array', String(at)]),
      );
      const there = new Set(await objectsOf(stored));
      const needed = await neededBy(String(at));
      expect(
        needed.filter((key) => !there.has(key)),
        `killed at change ${at}`,
      ).toEqual([]);
      await prune('--array', String(at));
      expect(checkpointsOf(await objectsOf(stored), String(at))).toEqual([]);
      if (!isKilled) break;
    }
  });
});
