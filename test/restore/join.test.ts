// Companions on their way back: joined from their segments, or left where they are.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { compress } from 'zstd-napi';
import type { Companion, StoredFile } from '../../src/model/format/records.ts';
import { wantedCompanions } from '../../src/restore/local.ts';
import { decompressStream } from '../../src/restore/decompress.ts';
import { fetchFiles, type Staged } from '../../src/restore/fetch.ts';
import { placeAll } from '../../src/restore/place.ts';
import { StoreError, type Store } from '../../src/store/contract/store.ts';
import { memoryStore, type MemoryStore } from '../support/memory-store.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

const PIECES = ['the first piece\n', 'x'.repeat(200_000), 'the last\n'];
const CONTENT = PIECES.join('');
const { signal } = new AbortController();
/** RFC 8878: a frame that goes on and on, and holds nothing. */
const EMPTY_BLOCKS = Buffer.concat([Buffer.from('28b52ffd0000', 'hex'), Buffer.alloc(3 * 2 ** 20)]);

let dir: TestDir;
let store: MemoryStore;
let companion: Companion;
let staged: Staged | undefined;

beforeEach(() => {
  dir = testDir();
  store = memoryStore();
  companion = storeCompanion('log/md.log');
});
afterEach(async () => {
  await staged?.close();
  staged = undefined;
  dir.remove();
});

/** Every second segment is stored compressed. */
function storeCompanion(path: string): Companion {
  let first = 0;
  const segments = PIECES.map((text, at) => {
    const plain = Buffer.from(text);
    const compressed = at % 2 === 1;
    const key = `${path}.t.0.1-${at + 1}.${at + 1}${compressed ? '.zst' : ''}`;
    store.objects.set(key, { bytes: compressed ? compress(plain) : plain, meta: {} });
    const md5 = createHash('md5').update(plain).digest('hex');
    first += plain.length;
    return { key, push: key, first: first - plain.length, size: plain.length, md5, compressed };
  });
  return { path, size: CONTENT.length, mode: 0o640, segments };
}

async function fetchCompanion(from: Store = store): Promise<Staged> {
  const sources = await wantedCompanions(dir, { members: [], companions: [companion] }, signal);
  staged = await fetchFiles(from, sources, dir, { signal, parallel: 4, decompress: decompressStream });
  return staged;
}

const keyOf = (at: number): string => companion.segments[at]?.key ?? '';

function damage(at: number, change: (bytes: Buffer) => Buffer): void {
  const bytes = change(Buffer.from(store.objects.get(keyOf(at))?.bytes ?? []));
  store.objects.set(keyOf(at), { bytes, meta: {} });
}

describe('a companion', () => {
  it('is joined from its segments, with its mode', async () => {
    placeAll(dir, await fetchCompanion());
    expect(dir.read('log/md.log')).toBe(CONTENT);
    expect(dir.facts('log/md.log').mode).toBe(0o640);
  });

  it('without a segment is an empty file', async () => {
    companion = { ...companion, size: 0, segments: [] };
    placeAll(dir, await fetchCompanion());
    expect(dir.read('log/md.log')).toBe('');
  });

  it('is missing when one segment is', async () => {
    store.objects.delete(keyOf(1));
    expect((await fetchCompanion()).files).toMatchObject([{ kind: 'missing' }]);
  });

  it.each<[string, number, (bytes: Buffer) => Buffer, string]>([
    ['has other bytes', 0, (bytes) => Buffer.from(bytes).fill('?'), 'md5'],
    ['is shorter', 2, (bytes) => bytes.subarray(1), 'has 8 bytes, its record says 9'],
    ['is longer', 0, (bytes) => Buffer.concat([bytes, bytes]), 'is longer than the 16 bytes'],
    ['is a frame of empty blocks', 1, () => EMPTY_BLOCKS, 'is larger than its content can be'],
    ['cannot be decompressed', 1, (bytes) => bytes.subarray(0, 5), 'cannot be decompressed'],
  ])('is corrupt when a segment %s', async (_, at, change, why) => {
    damage(at, change);
    expect((await fetchCompanion()).files).toMatchObject([
      { kind: 'corrupt', why: expect.stringContaining(why) },
    ]);
  });

  it('is corrupt when two segments have changed places', async () => {
    const [a, b] = [store.objects.get(keyOf(0)), store.objects.get(keyOf(2))];
    if (a === undefined || b === undefined) throw new Error('no segments');
    store.objects.set(keyOf(0), b);
    store.objects.set(keyOf(2), a);
    expect((await fetchCompanion()).files).toMatchObject([{ kind: 'corrupt' }]);
  });

  it('is not called corrupt when the store fails', async () => {
    const down = { ...store, get: () => Promise.reject(new StoreError('transient', 'the store is down')) };
    await expect(fetchCompanion(down)).rejects.toThrow('the store is down');
  });
});

describe('a companion in the work directory', () => {
  const wanted = async (): Promise<number> =>
    (await wantedCompanions(dir, { members: [], companions: [companion] }, signal)).length;

  it('is not fetched beside the member of the same set that has its path', async () => {
    const file = { path: companion.path } as StoredFile;
    expect(await wantedCompanions(dir, { members: [file], companions: [companion] }, signal)).toEqual([]);
  });

  it.each([
    ['is the stored one', CONTENT],
    ['goes on from the stored one', `${CONTENT}and more`],
  ])('stays when it %s', async (_, content) => {
    dir.write('log/md.log', content);
    expect(await wanted()).toBe(0);
  });

  it.each([
    ['is shorter', CONTENT.slice(1)],
    ['differs in its first byte', `T${CONTENT.slice(1)}`],
    ['differs in its last byte', `${CONTENT.slice(0, -1)} more`],
  ])('is fetched when it %s', async (_, content) => {
    dir.write('log/md.log', content);
    expect(await wanted()).toBe(1);
  });

  it('is fetched when it is a link', async () => {
    fs.mkdirSync(`${dir.path}/log`);
    dir.write('other', CONTENT);
    fs.symlinkSync('../other', `${dir.path}/log/md.log`);
    expect(await wanted()).toBe(1);
  });
});
