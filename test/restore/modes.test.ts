// What others may do with a restored file: no more than its object in a directory gives them, whatever its record says.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decompressStream } from '../../src/restore/decompress.ts';
import { fetchFiles } from '../../src/restore/fetch.ts';
import { placeAll } from '../../src/restore/place.ts';
import { type Source, sourceOfCompanion, sourceOfObject } from '../../src/restore/source.ts';
import { isStaged } from '../../src/restore/staging.ts';
import type { Store } from '../../src/store/contract/store.ts';
import { openStore } from '../../src/store/open.ts';
import { newMeta } from '../store/contract.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

const MIB = 2 ** 20;
const { signal } = new AbortController();

let dir: TestDir;
let shared: TestDir;
let store: Store;
let umask: number;
beforeEach(async () => {
  umask = process.umask(0o002);
  dir = testDir();
  shared = testDir();
  fs.chmodSync(shared.path, 0o2770);
  store = await openStore({ url: `file://${shared.path}`, flags: [], unfenced: false }, { budgetMs: 0 });
});
afterEach(async () => {
  process.umask(umask);
  await store.close();
  dir.remove();
  shared.remove();
});

const octal = (mode: number): string => mode.toString(8).padStart(3, '0');
const md5Of = (bytes: Buffer): string => createHash('md5').update(bytes).digest('hex');

async function put(key: string, mode: number, bytes = Buffer.from('x')): Promise<void> {
  await store.put(key, bytes, { meta: { ...newMeta(), mode: octal(mode) } });
}

async function restored(source: Source, syncedLater = false): Promise<string> {
  const options = { signal, parallel: 2, decompress: decompressStream, syncedLater };
  const staged = await fetchFiles(store, [source], dir, options);
  try {
    placeAll(dir, staged);
  } finally {
    await staged.close();
  }
  return octal(dir.facts(source.path).mode);
}

const told = { path: 'k.chk', kind: 'file', key: 'k.chk.0', compressed: false, mtimeNs: '1' } as const;

describe('a restored file', () => {
  it.each([
    ['600', '644', '600'],
    ['640', '640', '640'],
    ['644', '644', '644'],
    ['755', '755', '755'],
    ['400', '400', '400'],
    ['666', '600', '600'],
    // Its owner's rights are his own matter.
    ['755', '640', '740'],
    ['4777', '644', '744'],
  ])('whose record says %s has of an object of %s the mode %s', async (says, object, has) => {
    await put('k.chk.0', Number.parseInt(object, 8));
    for (const syncedLater of [false, true]) {
      const source = { ...told, size: 1, mode: Number.parseInt(says, 8) };
      expect(await restored(source, syncedLater)).toBe(has);
    }
  });

  it('that comes in ranges has no wider mode than its object', async () => {
    const bytes = Buffer.alloc(17 * MIB);
    await put('k.chk.0', 0o600, bytes);
    expect(await restored({ ...told, size: bytes.length, mode: 0o666 })).toBe('600');
  });

  it.each([
    ['640', '640', '640'],
    ['640', '600', '600'],
    ['600', '640', '600'],
    ['640', '604', '600'],
  ])('that is joined from objects of %s and %s has the mode %s', async (one, other, has) => {
    await put('s.1', Number.parseInt(one, 8));
    await put('s.2', Number.parseInt(other, 8));
    const segment = { push: 'p', size: 1, md5: md5Of(Buffer.from('x')), compressed: false };
    const segments = [
      { ...segment, key: 's.1', first: 0 },
      { ...segment, key: 's.2', first: 1 },
    ];
    expect(await restored(sourceOfCompanion({ path: 'log', size: 2, mode: 0o666, segments }))).toBe(has);
  });

  it.each([
    ['says', { mode: '666' }],
    ['says, with no mode,', {}],
  ])('of an input has no wider mode than its object, whatever its metadata %s', async (_, meta) => {
    await put('in.dat', 0o640);
    const head = await store.head('in.dat');
    if (head === undefined) throw new Error('no object');
    const forged = { ...head, meta: { push: 'p', ...meta }, permissions: undefined };
    expect(await restored(sourceOfObject('in.dat', forged, false))).toBe('640');
  });
});

describe('a file that an earlier process has staged', () => {
  const bytes = Buffer.from('x');
  const source = { ...told, size: 1, md5: md5Of(bytes), mode: 0o666 };

  it('keeps its mode', async () => {
    dir.write('k.chk.temp', bytes);
    fs.chmodSync(`${dir.path}/k.chk.temp`, 0o600);
    fs.utimesSync(`${dir.path}/k.chk.temp`, 0, 0);
    expect(await isStaged(dir, { ...source, mtimeNs: '0' }, 'k.chk.temp', signal)).toBe(true);
    expect(octal(dir.facts('k.chk.temp').mode)).toBe('600');
  });

  it('is fetched again if it was not finished: nobody knows what its object gave', async () => {
    dir.write('k.chk.temp', bytes);
    expect(await isStaged(dir, source, 'k.chk.temp', signal)).toBe(false);
  });
});
