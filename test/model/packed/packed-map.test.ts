// Rows must give back exactly what they were given: files and reclaims are decided by them.
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { decide, type FileEvent } from '../../../src/model/file/decide.ts';
import { type FileState, type Fingerprint, newFileState } from '../../../src/model/file/file-state.ts';
import type { StoredFile } from '../../../src/model/format/records.ts';
import { fileStateRow } from '../../../src/model/packed/file-state-row.ts';
import { PackedMap, Paths, rowList } from '../../../src/model/packed/packed-map.ts';
import { storedFileRow } from '../../../src/model/packed/stored-file-row.ts';

const anyPath = fc.string({ unit: 'binary', minLength: 1 });
const decimal = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String);
const hex = (digits: number): fc.Arbitrary<string> =>
  fc
    .uint8Array({ minLength: digits / 2, maxLength: digits / 2 })
    .map((bytes) => Buffer.from(bytes).toString('hex'));
const count = fc.nat();

/** Different names that all have one FNV-1a hash: pairs of pieces that lead from one state to the same next one. */
function namesOfOneFnvHash(count: number): readonly string[] {
  const fnv = (from: number, text: string): number =>
    Buffer.from(text).reduce((hash, char) => Math.imul(hash ^ char, 0x01000193), from);
  let names = [''];
  let hash = 0x811c9dc5 | 0;
  while (names.length < count) {
    const seen = new Map<number, string>();
    let piece = '';
    for (let n = 0; ; n += 1) {
      // Scattered: counted upwards, such short texts meet far too rarely.
      piece = (Math.imul(n, 0x9e3779b1) >>> 0).toString(36).padStart(7, '0');
      if (seen.has(fnv(hash, piece))) break;
      seen.set(fnv(hash, piece), piece);
    }
    hash = fnv(hash, piece);
    const other = seen.get(hash) ?? '';
    names = names.flatMap((name) => [name + piece, name + other]);
  }
  return names;
}

describe('paths', () => {
  it('are found at once, even if their names were chosen to have one hash', () => {
    const names = namesOfOneFnvHash(256);
    const paths = new Paths();
    const looks = vi.spyOn(paths, 'pathOf');
    for (const name of names) paths.idOf(name);
    expect(new Set(names).size).toBe(256);
    expect(looks.mock.calls.length).toBeLessThan(256);
  });

  it('come back exactly, whatever they are, under the number that they got first', () => {
    fc.assert(
      fc.property(fc.array(anyPath), (names) => {
        const paths = new Paths();
        const ids = names.map((name) => paths.idOf(name));
        expect(ids.map((id) => paths.pathOf(id))).toEqual(names);
        expect(names.map((name) => paths.find(name))).toEqual(ids);
        expect(paths.count).toBe(new Set(names).size);
      }),
    );
  });

  it('are found among ten thousand, long ones and those that are not UTF-8 too', () => {
    const paths = new Paths();
    const names = Array.from({ length: 10_000 }, (_, n) => `out/${n}`);
    names.push('x'.repeat(100_000), 'd\udcff/\u{1f600}', 'after');
    for (const name of names) paths.idOf(name);
    expect(names.every((name, id) => paths.find(name) === id && paths.pathOf(id) === name)).toBe(true);
    expect(paths.find('out/10000')).toBeUndefined();
    expect(() => paths.pathOf(names.length)).toThrow('no path has the number');
  });
});

describe('a map of rows', () => {
  const file = (path: string, size: number): StoredFile => ({
    path,
    kind: 'file',
    key: `${path}.0`,
    push: '01234567-89ab-cdef-0123-456789abcdef',
    attempt: 1,
    md5: '0123456789abcdef0123456789abcdef',
    size,
    compressed: false,
    mtimeNs: '1700000000123456789',
    mode: 0o644,
  });

  it('does what a Map does', () => {
    const change = fc.record({
      path: fc.constantFrom('a', 'b', 'c'),
      size: fc.option(fc.nat()),
      odd: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(change), (changes) => {
        const rows = new PackedMap(storedFileRow('0'));
        const map = new Map<string, StoredFile>();
        for (const { path, size, odd } of changes) {
          const value = { ...file(path, size ?? 0), ...(odd ? { push: 'odd' } : {}) };
          if (size === null) expect(rows.delete(path)).toBe(map.delete(path));
          else {
            rows.set(path, value);
            map.set(path, value);
          }
          expect(rows.size).toBe(map.size);
          expect(rows.has(path)).toBe(map.has(path));
          expect(rows.get(path)).toEqual(map.get(path));
        }
        expect(new Map(rows)).toEqual(map);
        expect(new Set(rows.keys())).toEqual(new Set(map.keys()));
      }),
    );
  });

  it('that shares its paths with another holds only its own', () => {
    const paths = new Paths();
    const one = new PackedMap(storedFileRow('0'), paths);
    const other = new PackedMap(storedFileRow('0'), paths);
    for (let n = 0; n < 3000; n += 1) one.set(`r${n}`, file(`r${n}`, n));
    other.set('r2999', file('r2999', 1));
    expect([...other.keys()]).toEqual(['r2999']);
    for (let n = 0; n < 2999; n += 1) one.delete(`r${n}`);
    expect([...one.values()]).toEqual([file('r2999', 2999)]);
  });
});

const storedFile: fc.Arbitrary<StoredFile> = fc
  .record({
    path: anyPath,
    kind: fc.constantFrom('file' as const, 'link' as const),
    push: fc.oneof(fc.uuid(), fc.string()),
    attempt: count,
    md5: hex(32),
    size: fc.maxSafeNat(),
    compressed: fc.boolean(),
    mtimeNs: fc.oneof(decimal, fc.constantFrom('0', '-0', '007', '99999999999999999999')),
    mode: fc.nat(0o7777),
    suspect: fc.constantFrom(true, false, undefined),
    key: fc.option(fc.string(), { nil: undefined }),
    storedSize: fc.option(fc.maxSafeNat(), { nil: undefined }),
  })
  .map(({ key, suspect, storedSize, ...file }) => ({
    ...file,
    key: key ?? `${file.path}.7${file.compressed ? '.zst' : ''}`,
    ...(suspect === undefined ? {} : { suspect }),
    ...(storedSize === undefined ? {} : { storedSize }),
  }));

describe('a row', () => {
  it('of a stored file says all that a record says', () => {
    fc.assert(
      fc.property(fc.array(storedFile, { maxLength: 20 }), (files) => {
        const paths = new Paths();
        expect([...rowList(files, storedFileRow('7'), paths)]).toStrictEqual(files);
        const rows = new PackedMap(storedFileRow('7'), paths);
        for (const file of files) {
          rows.set(file.path, file);
          expect(rows.get(file.path)).toStrictEqual(file);
        }
      }),
    );
  });

  const state: fc.Arbitrary<Fingerprint> = fc.record(
    { dev: decimal, ino: decimal, size: fc.maxSafeNat(), mtimeNs: decimal, ctimeNs: decimal },
    { noNullPrototype: true },
  );
  const durable = fc
    .record({ fingerprint: state, md5: fc.oneof(hex(32), fc.constant('')), same: fc.boolean() })
    .map(({ fingerprint, md5, same }) => ({ fingerprint, md5, size: same ? fingerprint.size : 3 }));
  const event: fc.Arbitrary<FileEvent> = fc.oneof(
    fc.record({
      kind: fc.constant('closed' as const),
      how: fc.constantFrom(
        'close' as const,
        'rename' as const,
        'link' as const,
        'scan' as const,
        'quiet' as const,
      ),
      atMs: fc.nat(),
      evidence: fc.constantFrom('clean' as const, 'doubtful' as const, undefined),
      seq: fc.nat(),
      since: fc.option(fc.nat(), { nil: undefined }),
    }),
    fc.constant({ kind: 'push-started' as const }),
    fc.record({
      kind: fc.constant('stored' as const),
      durable,
      atMs: fc.nat(),
      tookMs: fc.double({ noNaN: true }),
    }),
    fc.record({ kind: fc.constant('unchanged' as const), durable }),
    fc.record({ kind: fc.constant('torn' as const), atMs: fc.nat() }),
    fc.record({ kind: fc.constant('failed' as const), why: fc.constantFrom('a', 'b'), atMs: fc.nat() }),
    fc.record({ kind: fc.constant('refused' as const), why: fc.string() }),
    fc.constantFrom<FileEvent>(
      { kind: 'has-writer' },
      { kind: 'gone' },
      { kind: 'wanted' },
      { kind: 'vouched' },
      { kind: 'adopt' },
    ),
  );

  it('of a fileState is that very fileState, whatever happened to the file', () => {
    const start = fc.record({ path: anyPath, inherited: fc.option(state, { nil: undefined }) });
    fc.assert(
      fc.property(start, fc.array(event), ({ path, inherited }, events) => {
        const rows = new PackedMap(fileStateRow('result'));
        let fileState: FileState = { ...newFileState(path, 'result'), inherited };
        for (const one of events) {
          fileState = decide(fileState, one);
          rows.set(path, fileState);
          expect(rows.get(path)).toStrictEqual(fileState);
        }
      }),
    );
  });

  it('holds no more reasons than are worth it, and loses none', () => {
    const rows = new PackedMap(fileStateRow('result'));
    const names = Array.from({ length: 1500 }, (_, n) => `r${n}`);
    for (const name of names) rows.set(name, { ...newFileState(name, 'result'), left: `why ${name}` });
    expect(names.every((name) => rows.get(name)?.left === `why ${name}`)).toBe(true);
  });
});
