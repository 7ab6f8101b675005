import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { FileProgress } from '../../src/model/format/progress-line.ts';
import { decompressStream } from '../../src/restore/decompress.ts';
import { clearStaging, fetchFiles, type FetchOptions, type Staged } from '../../src/restore/fetch.ts';
import type { Source } from '../../src/restore/source.ts';
import { StoreError, type GetOptions, type Store } from '../../src/store/contract/store.ts';
import { memoryStore, type MemoryStore } from '../support/memory-store.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';
import { MTIME_NS, storeFile } from './restore-files.ts';

const MIB = 2 ** 20;

let dir: TestDir;
let store: MemoryStore;
let staged: Staged | undefined;

beforeEach(() => {
  dir = testDir();
  store = memoryStore();
});
afterEach(async () => {
  await staged?.close();
  staged = undefined;
  dir.remove();
});

async function fetchAll(
  sources: readonly Source[],
  options: Partial<FetchOptions> & { readonly from?: Store } = {},
): Promise<Staged> {
  staged = await fetchFiles(options.from ?? store, sources, dir, {
    signal: new AbortController().signal,
    parallel: 4,
    decompress: decompressStream,
    ...options,
  });
  return staged;
}

/** The result's words, without the source. */
async function fetchOne(source: Source, options: Parameters<typeof fetchAll>[1] = {}): Promise<object> {
  const { source: _source, ...rest } = (await fetchAll([source], options)).files[0] ?? { source };
  return rest;
}

describe('a stored file', () => {
  test.each([false, true])(
    'is fetched with its bytes, mode and mtime (compressed: %s)',
    async (compressed) => {
      const source = storeFile(store, 'a/k.chk', 'state of step 7', { compressed });
      const { files, whole } = await fetchAll([source]);
      expect(whole).toBe(true);
      expect(files[0]).toMatchObject({ kind: 'ok', md5: source.md5, size: 15 });
      const temp = files[0]?.kind === 'ok' ? files[0].temp : '';
      expect(dir.read(temp)).toBe('state of step 7');
      expect(dir.facts(temp)).toMatchObject({ mode: 0o640, mtimeNs: MTIME_NS });
      expect(dir.has('a')).toBe(false);
    },
  );

  test('never becomes setuid', async () => {
    const { files } = await fetchAll([storeFile(store, 'run', 'x', { mode: 0o6755 })]);
    expect(files[0]?.kind === 'ok' && dir.facts(files[0].temp).mode).toBe(0o755);
  });

  test('may be empty', async () => {
    expect(await fetchOne(storeFile(store, 'k.chk', ''))).toMatchObject({ kind: 'ok', size: 0 });
  });

  test('may be known by its key alone', async () => {
    store.objects.set('in.dat', { bytes: Buffer.from('input'), meta: {} });
    const source: Source = { path: 'in.dat', kind: 'file', key: 'in.dat', compressed: false };
    expect(await fetchOne(source)).toMatchObject({
      kind: 'ok',
      size: 5,
      md5: 'a43c1b0aa53a0c908810c06ab1ff3967',
    });
  });

  test.each([false, true])(
    'comes in parallel ranges when it is large (compressed: %s)',
    async (compressed) => {
      const source = storeFile(store, 'k.chk', randomBytes(27 * MIB + 5), { compressed });
      const ranges: GetOptions['range'][] = [];
      let underWay = 0;
      let most = 0;
      const from: Store = {
        ...store,
        get: async (key, options) => {
          ranges.push(options?.range);
          underWay += 1;
          most = Math.max(most, underWay);
          await new Promise(setImmediate);
          underWay -= 1;
          return store.get(key, options);
        },
      };
      let arrived = 0;
      const moved = (bytes: number): void => void (arrived += bytes);
      const done = vi.fn<(bytes: number) => void>();
      const progress = (): FileProgress => ({ moved, done, failed: () => undefined });
      expect(await fetchOne(source, { from, progress })).toMatchObject({ kind: 'ok', md5: source.md5 });
      expect(ranges).toHaveLength(4);
      expect(ranges.every((range) => range !== undefined && range.last - range.first < 8 * MIB)).toBe(true);
      expect(most).toBe(4);
      expect(arrived).toBe(27 * MIB + 5);
      expect(done.mock.calls).toEqual([[27 * MIB + 5]]);
    },
  );

  test.each([100_000, 20 * MIB])('of %d bytes is continued where a body broke off', async (size) => {
    const source = storeFile(store, 'k.chk', randomBytes(size));
    let breaks = 0;
    const from: Store = {
      ...store,
      get: async (key, options) => {
        const got = await store.get(key, options);
        if (got === undefined || breaks >= 2) return got;
        breaks += 1;
        const whole = got.body;
        const body = (async function* breaking(): AsyncGenerator<Uint8Array> {
          for await (const chunk of whole) {
            yield chunk.subarray(0, 1000);
            throw new StoreError('transient', 'connection reset');
          }
        })();
        return { ...got, body };
      },
    };
    expect(await fetchOne(source, { from })).toMatchObject({ kind: 'ok', md5: source.md5 });
    expect(breaks).toBe(2);
  });
});

test.each([0, 1000, 3000])(
  'an answer that names no length, and breaks off after %d of 3000 bytes, is no end of a file',
  async (after) => {
    const bytes = randomBytes(3000);
    store.objects.set('in.dat', { bytes, meta: {} });
    let breaks = 0;
    const from: Store = {
      ...store,
      get: async (key, options) => {
        const got = await store.get(key, options);
        if (got === undefined) return got;
        const whole = got.body;
        const isBroken = (breaks += 1) === 1;
        const body = (async function* breaking(): AsyncGenerator<Uint8Array> {
          for await (const chunk of whole) yield isBroken ? chunk.subarray(0, after) : chunk;
          if (isBroken) throw new StoreError('transient', 'connection reset');
        })();
        return { ...got, sizeBytes: undefined, body };
      },
    };
    const source: Source = { path: 'in.dat', kind: 'file', key: 'in.dat', compressed: false };
    expect(await fetchOne(source, { from })).toMatchObject({ kind: 'ok', size: 3000 });
    const [file] = staged?.files ?? [];
    expect(file?.kind === 'ok' && fs.readFileSync(path.join(dir.path, file.temp)).equals(bytes)).toBe(true);
    expect(breaks).toBe(2);
  },
);

describe('a file without a record that somebody replaces while it is fetched', () => {
  const BYTES = 20 * MIB;
  const [OLDER, NEWER] = ['A', 'B'].map((letter) => Buffer.alloc(BYTES, letter)) as [Buffer, Buffer];
  const named = (): Source => ({ kind: 'file', path: 'in.dat', key: 'in.dat', compressed: false });
  const put = (bytes: Buffer, push: string): unknown => store.put('in.dat', bytes, { meta: { push } });

  /** Replaced `times` times, each time after some bytes have come. */
  function replaced(times: number, parallel: boolean): Store {
    let left = times;
    const replace = (): void => {
      if (left <= 0) return;
      left -= 1;
      put(left % 2 === 0 ? NEWER : OLDER, `after ${left}`);
    };
    return {
      ...store,
      get: async (key, options) => {
        const got = await store.get(key, options);
        if (parallel) replace();
        if (got === undefined || parallel) return got;
        const whole = got.body;
        const body = (async function* breaking(): AsyncGenerator<Uint8Array> {
          for await (const chunk of whole) {
            yield chunk;
            if (left <= 0) continue;
            replace();
            throw new StoreError('transient', 'connection reset');
          }
        })();
        return { ...got, body };
      },
    };
  }

  test.each([true, false])('is fetched again, and is of one state (in ranges: %s)', async (parallel) => {
    await put(OLDER, 'first');
    const options = { from: replaced(1, parallel), parallel: parallel ? 2 : 1 };
    expect(await fetchOne(named(), options)).toMatchObject({ kind: 'ok', size: BYTES });
    const [file] = staged?.files ?? [];
    expect(file?.kind === 'ok' && fs.readFileSync(path.join(dir.path, file.temp)).equals(NEWER)).toBe(true);
  });

  test('again and again is corrupt, and never mixed', async () => {
    await put(OLDER, 'first');
    expect(await fetchOne(named(), { from: replaced(1000, true), parallel: 2 })).toMatchObject({
      kind: 'corrupt',
      why: 'in.dat was replaced while it was read',
    });
    expect(dir.names('.capture/restore').flatMap((name) => dir.names(`.capture/restore/${name}`))).toEqual(
      [],
    );
  });
});

describe('a file that is not whole', () => {
  test('is missing when its object is', async () => {
    const source = storeFile(store, 'k.chk', 'state');
    store.objects.clear();
    expect(await fetchOne(source)).toEqual({ kind: 'missing' });
    expect(await fetchOne({ ...source, size: 20 * MIB })).toEqual({ kind: 'missing' });
  });

  const damages: readonly (readonly [string, (bytes: Buffer) => Buffer, RegExp])[] = [
    ['has another byte', (bytes) => Buffer.concat([bytes.subarray(0, -1), Buffer.of(0)]), /md5 is/],
    ['is too short', (bytes) => bytes.subarray(0, -1), /its record says 5/],
    ['is too long', (bytes) => Buffer.concat([bytes, bytes]), /longer than the 5 bytes of its record/],
  ];
  test.each(damages)('is corrupt when it %s', async (_how, damage, why) => {
    const source = storeFile(store, 'k.chk', 'state');
    store.objects.set(source.key, { bytes: damage(Buffer.from('state')), meta: {} });
    const result = await fetchAll([source]);
    expect(result.whole).toBe(false);
    expect(result.files[0]).toMatchObject({ kind: 'corrupt', why: expect.stringMatching(why) });
  });

  test('is corrupt when it cannot be decompressed, or unfolds to more than its record says', async () => {
    const source = storeFile(store, 'k.chk', 'state'.repeat(1000), { compressed: true });
    expect(await fetchOne({ ...source, size: 100 })).toMatchObject({ kind: 'corrupt' });
    const stored = store.objects.get(source.key)?.bytes ?? Buffer.alloc(0);
    store.objects.set(source.key, { bytes: stored.subarray(0, -3), meta: {} });
    expect(await fetchOne(source)).toMatchObject({
      kind: 'corrupt',
      why: expect.stringMatching(/decompressed/),
    });
  });

  test('leaves no temporary', async () => {
    const bad = { ...storeFile(store, 'bad', 'x'), md5: '0'.repeat(32) };
    await fetchAll([bad]);
    const [sub] = dir.names('.capture/restore');
    expect(dir.names(`.capture/restore/${sub}`)).toEqual([]);
  });
});

describe('a name', () => {
  test.each(['../r.dat', '/etc/r.dat', 'a/../../r.dat', 'a//b', 'a\0b', '.capture/journal', '.capture'])(
    '%j is refused',
    async (name) => {
      const source = { ...storeFile(store, 'r.dat', 'x'), path: name };
      expect(await fetchOne(source)).toMatchObject({ kind: 'refused' });
    },
  );

  test.each([`${'n'.repeat(256)}.dat`, `${'n'.repeat(256)}/r.dat`])(
    'that is too long for the file system is refused (%#)',
    async (name) => {
      const source = { ...storeFile(store, 'r.dat', 'x'), path: name };
      expect(await fetchOne(source)).toEqual({
        kind: 'refused',
        why: 'its name is too long for the file system',
      });
    },
  );

  test('below a link is refused, also when the link stays inside', async () => {
    fs.mkdirSync(path.join(dir.path, 'real'));
    fs.symlinkSync('real', path.join(dir.path, 'out'));
    expect(await fetchOne(storeFile(store, 'out/r.dat', 'x'))).toEqual({
      kind: 'refused',
      why: 'out is a link',
    });
    expect(dir.names('real')).toEqual([]);
  });
});

describe('a link', () => {
  test('is fetched as a link', async () => {
    const { files } = await fetchAll([storeFile(store, 'out/latest', '../k.7', { kind: 'link' })]);
    const temp = files[0]?.kind === 'ok' ? files[0].temp : '';
    expect(fs.readlinkSync(path.join(dir.path, temp))).toBe('../k.7');
  });

  test.each(['/etc/passwd', '../../x', 'a/../../x'])('to %s is refused', async (target) => {
    const source = storeFile(store, 'out/latest', target, { kind: 'link' });
    expect(await fetchOne(source)).toMatchObject({ kind: 'refused', why: expect.stringContaining('leaves') });
  });

  test('is corrupt when its text is no path at all', async () => {
    const source = storeFile(store, 'latest', 'x'.repeat(5000), { kind: 'link' });
    expect(await fetchOne(source)).toMatchObject({ kind: 'corrupt' });
  });
});

describe('a failure', () => {
  test('of the store stops all and leaves nothing behind', async () => {
    const sources = Array.from({ length: 20 }, (_, n) => storeFile(store, `k.${n}`, `state ${n}`));
    const denied = new StoreError('denied', 'GetObject: access denied');
    const from: Store = {
      ...store,
      get: async (key, options) => {
        if (key === 'k.7.3') throw denied;
        return store.get(key, options);
      },
    };
    await expect(fetchAll(sources, { from })).rejects.toBe(denied);
    expect(dir.names('.capture/restore')).toEqual([]);
  });

  test('of a body that never comes is given up with its own error', async () => {
    const source = storeFile(store, 'k.chk', 'state');
    const broken = new StoreError('transient', 'connection reset');
    const from: Store = {
      ...store,
      get: async (key, options) => {
        const got = await store.get(key, options);
        // oxlint-disable-next-line require-yield -- it breaks before its first byte
        const body = (async function* none(): AsyncGenerator<Uint8Array> {
          throw broken;
        })();
        return got === undefined ? undefined : { ...got, body };
      },
    };
    await expect(fetchAll([source], { from })).rejects.toBe(broken);
  });

  test('to have room is told before anything is fetched', async () => {
    const source = { ...storeFile(store, 'k.chk', 'x'), size: 2 ** 52 };
    const from: Store = {
      ...store,
      get: () => Promise.reject(new Error('asked')),
      head: () => Promise.reject(new Error('asked')),
    };
    await expect(fetchAll([source], { from })).rejects.toThrow(
      /cannot restore 1 file \(4\.0 PiB\) into .* are free/,
    );
  });

  test('by an abort throws its reason', async () => {
    const source = storeFile(store, 'k.chk', 'x');
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(fetchAll([source], { signal })).rejects.toThrow('enough');
    expect(dir.names('.capture/restore')).toEqual([]);
  });
});

test('what an interrupted restore has left is cleared away', async () => {
  dir.write('.capture/restore/abc/0', 'half');
  await clearStaging(dir);
  expect(dir.has('.capture/restore')).toBe(false);
});
