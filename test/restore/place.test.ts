import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { decompressStream } from '../../src/restore/decompress.ts';
import { fetchFiles, type Staged } from '../../src/restore/fetch.ts';
import { describeSetAside, placeAll } from '../../src/restore/place.ts';
import type { Source } from '../../src/restore/source.ts';
import { memoryStore, type MemoryStore } from '../support/memory-store.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';
import { MTIME_NS, storeFile } from './restore-files.ts';

let dir: TestDir;
let store: MemoryStore;

beforeEach(() => {
  dir = testDir();
  store = memoryStore();
});
afterEach(() => dir.remove());

function staged(...sources: readonly Source[]): Promise<Staged> {
  const { signal } = new AbortController();
  return fetchFiles(store, sources, dir, { signal, parallel: 2, decompress: decompressStream });
}

describe('whole files', () => {
  test('come into place with mode and mtime, below directories that are made', async () => {
    const files = await staged(storeFile(store, 'k.chk', 'state'), storeFile(store, 'a/b/k.chk', 'other'));
    const placed = placeAll(dir, files);
    await files.close();
    expect(placed.map(({ source, setAside }) => [source.path, setAside])).toEqual([
      ['k.chk', undefined],
      ['a/b/k.chk', undefined],
    ]);
    expect(dir.read('a/b/k.chk')).toBe('other');
    expect(dir.facts('k.chk')).toMatchObject({ mode: 0o640, mtimeNs: MTIME_NS });
    expect(dir.names('.capture/restore')).toEqual([]);
  });

  test('may be links', async () => {
    const files = await staged(storeFile(store, 'out/latest', 'k.7', { kind: 'link' }));
    placeAll(dir, files);
    await files.close();
    expect(fs.readlinkSync(path.join(dir.path, 'out/latest'))).toBe('k.7');
  });
});

describe('a local file', () => {
  test.each([
    [1_700_000_001, 'local', 'newer'],
    [1_600_000_000, 'stored', 'older'],
  ] as const)('modified at %d is moved aside, and %s is said to be newer', async (mtime, newer, word) => {
    fs.utimesSync(dir.write('a/k.chk', 'local'), mtime, mtime);
    const files = await staged(storeFile(store, 'a/k.chk', 'stored'));
    const [placed] = placeAll(dir, files);
    await files.close();
    expect(placed?.setAside).toEqual({ path: 'a/k.chk', aside: '.capture/aside/1-k.chk', newer });
    expect(dir.read('.capture/aside/1-k.chk')).toBe('local');
    expect(dir.read('a/k.chk')).toBe('stored');
    expect(placed?.setAside && describeSetAside(placed.setAside)).toBe(
      `a/k.chk: the stored one is restored; the ${word} local one, which differs, is now .capture/aside/1-k.chk`,
    );
  });

  test('never takes the name of one that was moved aside before', async () => {
    dir.write('.capture/aside/1-k.chk', 'first');
    dir.write('k.chk', 'second');
    const files = await staged(storeFile(store, 'k.chk', 'stored'));
    placeAll(dir, files);
    await files.close();
    expect(dir.read('.capture/aside/1-k.chk')).toBe('first');
    expect(dir.read('.capture/aside/2-k.chk')).toBe('second');
  });

  test('that is a link is moved aside itself, and what it points to is not touched', async () => {
    dir.write('precious', 'mine');
    fs.symlinkSync('precious', path.join(dir.path, 'k.chk'));
    const files = await staged(storeFile(store, 'k.chk', 'stored'));
    placeAll(dir, files);
    await files.close();
    expect(dir.read('precious')).toBe('mine');
    expect(dir.read('k.chk')).toBe('stored');
    expect(fs.readlinkSync(path.join(dir.path, '.capture/aside/1-k.chk'))).toBe('precious');
  });
});

describe('a directory that becomes a link out between the look and the act', () => {
  /** Another user's link, put there the moment that the directory has been looked at. */
  async function swapped(look: () => unknown): Promise<string> {
    const outside = testDir();
    outside.write('k.chk', 'precious');
    const files = await staged(storeFile(store, 'd/k.chk', 'stored'));
    const d = path.join(dir.path, 'd');
    dir.write('d/k.chk', 'local');
    const lstat = fs.lstatSync;
    const spy = vi.spyOn(fs, 'lstatSync').mockImplementation((...args: Parameters<typeof fs.lstatSync>) => {
      const stat = lstat(...args);
      if (look() === true) {
        fs.renameSync(d, `${d}.old`);
        fs.symlinkSync(outside.path, d);
      }
      return stat;
    });
    try {
      expect(() => placeAll(dir, files)).toThrow(/cannot place d\/k\.chk in/);
    } finally {
      spy.mockRestore();
      await files.close();
    }
    const there = outside.read('k.chk');
    expect(outside.names('.')).toEqual(['k.chk']);
    outside.remove();
    return there;
  }

  test.each([1, 2, 3, 4, 5])('takes nothing out and puts nothing there (look %d)', async (nth) => {
    let looks = 0;
    expect(await swapped(() => (looks += 1) === nth)).toBe('precious');
    expect(looks).toBeGreaterThanOrEqual(nth);
    expect(dir.names('.capture/aside')).toEqual([]);
  });
});

describe('nothing is placed', () => {
  test('when one file is not whole', async () => {
    const bad = { ...storeFile(store, 'bad', 'x'), md5: '0'.repeat(32) };
    const files = await staged(storeFile(store, 'good', 'x'), bad);
    expect(() => placeAll(dir, files)).toThrow('not all are whole');
    expect(dir.has('good')).toBe(false);
    await files.close();
  });

  test.each([
    [
      'a directory has its name',
      (): unknown => fs.mkdirSync(path.join(dir.path, 'z/k.chk'), { recursive: true }),
    ],
    [
      'a directory above it has become a link',
      (): unknown => fs.symlinkSync('/tmp', path.join(dir.path, 'z')),
    ],
    ['a file is in the way of its directory', (): unknown => fs.writeFileSync(path.join(dir.path, 'z'), '')],
  ])('when %s', async (_why, meanwhile) => {
    const files = await staged(storeFile(store, 'good', 'x'), storeFile(store, 'z/k.chk', 'x'));
    meanwhile();
    expect(() => placeAll(dir, files)).toThrow(/cannot place z\/k\.chk in/);
    expect(dir.has('good')).toBe(false);
    await files.close();
  });
});
