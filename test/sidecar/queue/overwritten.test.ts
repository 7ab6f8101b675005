import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import type { StoredFile } from '../../../src/model/format/records.ts';
import { beginsWith, movedTo, storedNow, withMd5 } from '../../../src/sidecar/queue/overwritten.ts';
import type { Store } from '../../../src/store/contract/store.ts';
import { memoryStore } from '../../support/memory-store.ts';

const RECORDED: StoredFile = {
  path: 'r.dat',
  kind: 'file',
  key: 'r.dat.3',
  push: 'one',
  attempt: 1,
  md5: '0'.repeat(32),
  size: 3,
  storedSize: 3,
  compressed: false,
  mtimeNs: '1',
  mode: 0o644,
};
const never = new AbortController().signal;

it('an object that a killed attempt pushed over a recorded result is recorded as it is, and found whole the next time', async () => {
  const store = memoryStore();
  const meta = { push: 'two', md5: '1'.repeat(32), size: '5', mtime: '2', mode: '644' };
  await store.put(RECORDED.key, Buffer.from('newer'), { meta });
  const there = await storedNow(store, RECORDED, never);
  expect(there).toMatchObject({ push: 'two', size: 5, storedSize: 5, md5: meta.md5 });
  const noted: StoredFile = { ...RECORDED, ...there, md5: meta.md5 };
  expect(await storedNow(store, noted, never)).toBe(noted);
});

it.each<[string, string, string | undefined, boolean]>([
  ['as it is', 'newer', 'newer', false],
  ['undefined, as it is cut short', 'newe', undefined, false],
  ['undefined, as it is longer', 'newer!', undefined, false],
  ['undefined, as it is no zstd frame', 'newer', undefined, true],
])('a large object, which does not carry its md5, is read: it is %s', async (_, bytes, whole, compressed) => {
  const store = memoryStore();
  await store.put(RECORDED.key, Buffer.from(bytes), { meta: { push: 'two', size: '5' } });
  const there = await storedNow(store, { ...RECORDED, compressed }, never);
  if (there === undefined) throw new Error('it stands there');
  expect(there.md5).toBeUndefined();
  const md5 = whole === undefined ? undefined : createHash('md5').update(whole).digest('hex');
  expect((await withMd5(store, there, never))?.md5).toBe(md5);
});

it('a large object with more bytes than its metadata say is read no further than that', async () => {
  const memory = memoryStore();
  await memory.put(RECORDED.key, Buffer.from('newer'), { meta: { push: 'two', size: '5' } });
  let pieces = 0;
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (; pieces < 1000; pieces += 1) yield Buffer.from('more');
  }
  const there = await storedNow(memory, RECORDED, never);
  if (there === undefined) throw new Error('it stands there');
  const store: Store = {
    ...memory,
    get: async (...asked) => {
      const got = await memory.get(...asked);
      return got && { ...got, body: endless() };
    },
  };
  expect(await withMd5(store, { ...there, storedSize: undefined }, never)).toBeUndefined();
  expect(pieces).toBeLessThan(10);
});

it('an object that was moved aside after a death is found by its push id, whatever objects are listed before it', async () => {
  const store = memoryStore();
  const scope = { taskName: 't', index: '3' };
  const moved = (): Promise<string | undefined> => movedTo(store, scope, RECORDED, never);
  expect(await moved()).toBeUndefined();
  await store.put('r.dat.3.partial-1', Buffer.from('abc'), { meta: { push: 'of another task' } });
  expect(await moved()).toBeUndefined();
  await store.put('r.dat.3.partial-12', Buffer.from('abc'), { meta: { push: 'one' } });
  expect(await moved()).toBeUndefined();
  await store.put('r.dat.3.partial-1.~4~', Buffer.from('abc'), { meta: { push: 'one' } });
  expect(await moved()).toBe('r.dat.3.partial-1.~4~');
});

it.each([
  ['the same bytes', 'one two', true],
  ['fewer', 'one', true],
  ['none', '', true],
  ['more', 'one two three', false],
  ['others', 'one too', false],
  ['what it holds later', 'two', false],
])('a stored result begins with %s: %j %s', async (_, part, expected) => {
  const store = memoryStore();
  await store.put('r.dat.3', Buffer.from('one two'), { meta: {} });
  await store.put('r.dat.3.partial-1', Buffer.from(part), { meta: {} });
  const result = { ...RECORDED, size: 7, storedSize: 7 };
  const left = { ...RECORDED, key: 'r.dat.3.partial-1', size: part.length, storedSize: part.length };
  const md5 = createHash('md5').update(part).digest('hex');
  expect(await beginsWith(store, result, { ...left, md5 }, never)).toBe(expected);
  // No record names it: then its bytes are read.
  expect(await beginsWith(store, result, { ...left, md5: '' }, never)).toBe(expected);
});
