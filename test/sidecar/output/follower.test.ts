// A file that the task writes its output to, and what is stored of it.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseOutputKey } from '../../../src/model/format/output-keys.ts';
import { emptyUpTo, FIRST_BYTES } from '../../../src/model/output-copy.ts';
import { punchHole } from '../../../src/native/files.ts';
import { loadCompressor } from '../../../src/read/encode.ts';
import { Follower, type FollowerNeeds, type FollowerOptions } from '../../../src/sidecar/output/follower.ts';
import { decompressStream } from '../../../src/restore/decompress.ts';
import { memoryStore, type MemoryStore } from '../../support/memory-store.ts';
import { noise } from '../../e2e/support.ts';
import { testDir, type TestDir } from '../../support/work-dir.ts';

const KiB = 2 ** 10;
const MiB = 2 ** 20;
const SCOPE = { taskName: 't', index: '0' };

let dir: TestDir;
let store: MemoryStore;
let fd: number;
let puts: string[];
/** Fails the next puts. */
let isDown: boolean;
beforeEach(() => {
  dir = testDir();
  puts = [];
  isDown = false;
  const memory = memoryStore();
  store = {
    ...memory,
    put: async (key, body, options) => {
      if (isDown) throw new Error('no store');
      puts.push(key);
      return memory.put(key, body, options);
    },
  };
  dir.write('log', '');
  fd = fs.openSync(`${dir.path}/log`, 'r');
});
afterEach(() => {
  fs.closeSync(fd);
  dir.remove();
});

let pushes = 0;

function follower(changes: Partial<FollowerOptions> = {}): Follower {
  const context = {
    scope: SCOPE,
    attempt: 1,
    runToken: 'run',
    store,
    tidy: {
      delete: async (keys: readonly string[]) => {
        await store.delete(keys);
        return true;
      },
    },
    sender: { bandwidth: undefined, newId: () => `push-${(pushes += 1)}` },
  } as unknown as FollowerNeeds;
  return new Follower({
    isEndOnly: false,
    context,
    source: { stream: 'output', fd, fromBytes: 0, isCopy: false },
    limitBytes: 64 * MiB,
    compressor: undefined,
    level: 1,
    before: async () => undefined,
    ...changes,
  });
}

const write = (bytes: string | Uint8Array): void => fs.appendFileSync(`${dir.path}/log`, bytes);
const look = (one: Follower): Promise<void> => one.store(new AbortController().signal);

/** What is stored, by where it begins. */
function stored(): readonly (readonly [number, Buffer])[] {
  return [...store.objects]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, { bytes }]) => [parseOutputKey(key)?.first ?? -1, bytes] as const);
}

const text = (): string => Buffer.concat(stored().map(([, bytes]) => bytes)).toString();
const written = (): Buffer => fs.readFileSync(`${dir.path}/log`);

describe('new output', () => {
  it('is stored, and nothing is sent without new output', async () => {
    const one = follower();
    await look(one);
    expect(puts).toEqual([]);
    write('hello\n');
    await look(one);
    await look(one);
    expect(puts).toHaveLength(1);
    expect(text()).toBe('hello\n');
  });

  it('is only what the task wrote, not what was in the file before', async () => {
    write('of an earlier attempt\n');
    const one = follower({ source: { stream: 'output', fd, fromBytes: 22, isCopy: false } });
    write('of this one\n');
    await look(one);
    expect(text()).toBe('of this one\n');
  });

  it('makes a small segment grow, so that a day of slow output does not make a thousand objects', async () => {
    const one = follower();
    for (let minute = 0; minute < 50; minute += 1) {
      write(`minute ${minute}\n`);
      await look(one);
    }
    expect(store.objects.size).toBe(1);
    expect(text().split('\n')).toHaveLength(51);
  });

  it('begins another segment after 256 KiB, so that no byte is sent very often', async () => {
    const one = follower();
    for (let turn = 0; turn < 8; turn += 1) {
      write(noise(100 * KiB, turn));
      await look(one);
    }
    expect(stored().map(([first, bytes]) => [first, bytes.length])).toEqual([
      [0, 300 * KiB],
      [300 * KiB, 300 * KiB],
      [600 * KiB, 200 * KiB],
    ]);
    expect(Buffer.concat(stored().map(([, bytes]) => bytes)).equals(written())).toBe(true);
  });

  it('is compressed as files are', async () => {
    const one = follower({ compressor: await loadCompressor() });
    const lines = 'the same line\n'.repeat(10_000);
    write(lines);
    await look(one);
    const [[key, { bytes }] = ['', { bytes: Buffer.alloc(0) }]] = [...store.objects];
    expect(key).toMatch(/\.zst$/);
    expect(bytes.length).toBeLessThan(1000);
    const source = (async function* () {
      yield bytes;
    })();
    const plain: Uint8Array[] = [];
    for await (const piece of decompressStream(source)) plain.push(piece);
    expect(Buffer.concat(plain).toString()).toBe(lines);
  });

  it('is sent again after a failure, at the same position', async () => {
    const one = follower();
    write('first\n');
    isDown = true;
    await expect(look(one)).rejects.toThrow('no store');
    isDown = false;
    write('second\n');
    await look(one);
    expect(text()).toBe('first\nsecond\n');
  });
});

describe('a task that writes without end', () => {
  it('keeps the beginning and the newest output, within the limit', async () => {
    const one = follower({ limitBytes: MiB });
    for (let turn = 0; turn < 20; turn += 1) {
      write(noise(300 * KiB, turn));
      await look(one);
      const total = stored().reduce((sum, [, bytes]) => sum + bytes.length, 0);
      expect(total).toBeLessThanOrEqual(MiB);
    }
    const all = written();
    expect(stored()[0]?.[0]).toBe(0);
    const [first, bytes] = stored().at(-1) ?? [0, Buffer.alloc(0)];
    expect(first + bytes.length).toBe(all.length);
    for (const [at, piece] of stored()) expect(piece.equals(all.subarray(at, at + piece.length))).toBe(true);
  });

  it('keeps the end alone where nothing else is asked for, and one key says where it begins', async () => {
    write(noise(MiB, 1));
    const one = follower({ limitBytes: 64 * KiB, isEndOnly: true });
    await look(one);
    const all = written();
    expect(stored().map(([first]) => first)).toEqual([all.length - 64 * KiB]);
    expect(stored()[0]?.[1].equals(all.subarray(-64 * KiB))).toBe(true);
  });

  it('has only its newest output read if it is faster than the store, and the keys show the gap', async () => {
    const one = follower({ limitBytes: MiB });
    write('start\n');
    await look(one);
    write(noise(9 * MiB, 1));
    await look(one);
    const all = written();
    const newestBytes = MiB - 'start\n'.length;
    expect(stored().map(([first]) => first)).toEqual([0, all.length - newestBytes]);
    expect(stored().at(-1)?.[1].equals(all.subarray(-newestBytes))).toBe(true);
  });

  it('keeps its beginning even if it has written more than the limit before the first look', async () => {
    const one = follower({ limitBytes: MiB });
    write('start\n');
    write(noise(9 * MiB, 1));
    await look(one);
    const all = written();
    expect(stored().map(([first, bytes]) => [first, bytes.length])).toEqual([
      [0, 256 * KiB],
      [all.length - 768 * KiB, 768 * KiB],
    ]);
    for (const [at, piece] of stored()) expect(piece.equals(all.subarray(at, at + piece.length))).toBe(true);
  });
});

it('a file that is emptied in place is read from its beginning, and stored after what was stored before', async () => {
  const one = follower();
  write('before\n');
  await look(one);
  fs.truncateSync(`${dir.path}/log`);
  write('new\n');
  await look(one);
  expect(text()).toBe('before\nnew\n');
});

it('a sidecar that replaces a dead one continues its segment', async () => {
  write('before\n');
  await look(follower());
  write('after\n');
  await look(follower({ before: async () => ({ first: 0, at: 0, sizeBytes: 7 }) }));
  expect(text()).toBe('before\nafter\n');
  expect(store.objects.size).toBe(1);
});

describe('the copy of a pipe', () => {
  const copy = (changes: Partial<FollowerOptions> = {}): Follower =>
    follower({ source: { stream: 'output', fd, fromBytes: 0, isCopy: true }, ...changes });
  beforeEach(() => {
    fs.closeSync(fd);
    fd = fs.openSync(`${dir.path}/log`, 'r+');
  });

  it('is emptied as far as it is stored in whole segments, and a sidecar that replaces a dead one needs no more', async () => {
    write(noise(3 * MiB, 1));
    const all = written();
    await look(copy());
    write('after\n');
    const [first = 0, bytes] = stored().at(-1) ?? [];
    const before = { first, at: first, sizeBytes: bytes?.length ?? 0 };
    expect(fs.statSync(`${dir.path}/log`).blocks * 512).toBeLessThan(2 * MiB);
    await look(copy({ before: async () => before }));
    const expected = Buffer.concat([all, Buffer.from('after\n')]);
    expect(Buffer.concat(stored().map(([, piece]) => piece)).equals(expected)).toBe(true);
  });

  it('is never stored where the launcher has emptied it meanwhile', async () => {
    const limitBytes = 4 * MiB;
    const all = noise(16 * MiB, 1);
    write(all.subarray(0, 4 * MiB));
    const { put } = store;
    // While the first segment is sent, the task writes far more than is kept.
    store.put = async (...args) => {
      const [key, body] = args;
      const first = parseOutputKey(key)?.first ?? -1;
      const sent = body as Uint8Array;
      expect(Buffer.compare(sent, all.subarray(first, first + sent.length))).toBe(0);
      if (written().length < all.length) {
        write(all.subarray(4 * MiB));
        await punchHole(fd, FIRST_BYTES, emptyUpTo(all.length, limitBytes));
      }
      return put(...args);
    };
    const one = copy({ limitBytes });
    await look(one);
    await look(one);
    expect(stored()[0]).toEqual([0, all.subarray(0, FIRST_BYTES)]);
    const [first, bytes] = stored().at(-1) ?? [0, Buffer.alloc(0)];
    expect(first + bytes.length).toBe(all.length);
  });
});
