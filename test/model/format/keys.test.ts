import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  checkpointKey,
  escapePath,
  inputKeys,
  isCompressedKey,
  keptPrefix,
  parseKept,
  parseSegmentKey,
  pathOfKey,
  pathOfResult,
  sealedEnding,
  keptKey,
  mayCompress,
  momentPrefix,
  parseMoment,
  parsePartial,
  parseRecordKey,
  partialKey,
  partialPrefix,
  recordKey,
  recordPrefix,
  resultKey,
  segmentKey,
  unescapeKey,
} from '../../../src/model/format/keys.ts';
import { originOf } from '../../../src/model/format/origin.ts';
import { outputKey, parseOutputKey } from '../../../src/model/format/output-keys.ts';
import { storedFileRow } from '../../../src/model/packed/stored-file-row.ts';
import { shapeOf } from '../../../src/array/shape.ts';
import { decodePath } from '../../../src/model/path.ts';
import { anyPath } from '../../support/any-path.ts';

const scope = { taskName: 'lmp', index: '7' };

describe('object keys', () => {
  it.each([
    ['a result', resultKey('out/r.dat', scope, true), 'out/r.dat.7.zst'],
    ['a result sent as it is', resultKey('out/r.dat', scope, false), 'out/r.dat.7'],
    ['what a death left', partialKey('r.dat', scope, { attempt: 2, n: 0 }, true), 'r.dat.7.partial-2.zst'],
    ['an older object', keptKey('r.dat', scope, 1, false), 'r.dat.7.~1~'],
    [
      'a checkpoint',
      checkpointKey('k.chk', scope, { attempt: 2, generation: 31 }, true),
      'k.chk.lmp.7.2-31.zst',
    ],
    ['a record', recordKey(scope, 2, 14, 'checkpoint'), '.capture/lmp/7/0002-000014.checkpoint.json'],
    ['a failure', recordKey(scope, 2, 14, 'failed-137'), '.capture/lmp/7/0002-000014.failed-137.json'],
  ])('of %s are as documented', (_, key, expected) => {
    expect(key).toBe(expected);
  });

  it('look for an input under the index first', () => {
    expect(inputKeys('in.dat', scope).map(({ key }) => key)).toEqual(['in.dat.7', 'in.dat.7.zst', 'in.dat']);
  });

  it('keep a file that is compressed by its name apart from our own endings', () => {
    expect(mayCompress('a.zst')).toBe(false);
    expect(resultKey('a.zst', scope, false)).toBe('a%2Ezst.7');
  });

  it('look for an input that somebody has uploaded under its plain name, too', () => {
    const keysOf = (path: string): readonly string[] => inputKeys(path, scope).map(({ key }) => key);
    const zst = ['a%2Ezst.7', 'a%2Ezst.7.zst', 'a.zst.7', 'a.zst.7.zst', 'a.zst', 'a%2Ezst'];
    expect(keysOf('a.zst')).toEqual(zst);
    expect(keysOf('50%').slice(-2)).toEqual(['50%', '50%25']);
    expect(keysOf(decodePath(Buffer.from([0xff]))).slice(-1)).toEqual(['%FF']);
    expect(keysOf(decodePath(Buffer.from([0xff])))).toHaveLength(3);
  });

  it.each([
    ['a.zst', 'a.zst'],
    ['a%2Ezst', 'a.zst'],
    ['50%', '50%'],
    ['50%25', '50%'],
    ['a%20b', 'a%20b'],
    ['%FF', decodePath(Buffer.from([0xff]))],
  ])('%s is that of the file %s', (key, path) => {
    expect(pathOfKey(key)).toBe(path);
  });

  it('write %, control bytes and bytes that are not UTF-8 as %XX', () => {
    expect(escapePath('50%\n')).toBe('50%25%0A');
    expect(escapePath(decodePath(Buffer.from([0x61, 0xff, 0x62])))).toBe('a%FFb');
    expect(escapePath('it\'s né #1 "x"')).toBe('it\'s né #1 "x"');
  });

  it('shorten a component of more than 200 bytes and a key of more than 900', () => {
    const long = escapePath('é'.repeat(127));
    expect(Buffer.byteLength(long)).toBeLessThanOrEqual(200);
    expect(long).not.toBe(escapePath('é'.repeat(126)));
    const deep = Array.from({ length: 12 }, () => 'd'.repeat(150)).join('/');
    expect(
      Buffer.byteLength(checkpointKey(deep, scope, { attempt: 1, generation: 1 }, true)),
    ).toBeLessThanOrEqual(900);
  });

  it('come back as the path they were made from', () => {
    const component = fc.uint8Array({ minLength: 1, maxLength: 40 }).map((bytes) => {
      const name = decodePath(bytes.map((byte) => (byte === 0 || byte === 0x2f ? 0x61 : byte)));
      return name === '.' || name === '..' ? 'dots' : name;
    });
    fc.assert(
      fc.property(fc.array(component, { minLength: 1, maxLength: 3 }), (parts) => {
        const path = parts.join('/');
        expect(unescapeKey(escapePath(path))).toBe(path);
      }),
    );
  });

  it('of two different paths are different', () => {
    const name = fc.string({
      unit: fc.constantFrom('a', '.', 'z', 's', 't', '%', '2', 'E', '7'),
      minLength: 1,
      maxLength: 8,
    });
    fc.assert(
      fc.property(name, name, (a, b) => {
        fc.pre(a !== b);
        const all = (path: string): string[] => [
          resultKey(path, scope, false),
          ...(mayCompress(path) ? [resultKey(path, scope, true)] : []),
        ];
        expect(all(a).some((key) => all(b).includes(key))).toBe(false);
      }),
      { numRuns: 5000 },
    );
  });
});

describe('two files of one index', () => {
  it('never share a key, even if one is called as an object of the other', () => {
    const pieces = ['x', '.t', '.7', '.1-1', '.3-2', '.2', '.zst', '.~1~', '.partial-1', '%2E', '/'];
    const path = fc
      .array(fc.constantFrom(...pieces), { maxLength: 6 })
      .map((some) => `x${some.join('').replace(/\/+/g, '/').replace(/\/$/, '')}`);
    const keysOf = (one: string, at: { taskName: string; index: string }): readonly string[] =>
      [false, ...(mayCompress(one) ? [true] : [])].flatMap((zst) => [
        resultKey(one, at, zst),
        partialKey(one, at, { attempt: 1, n: 0 }, zst),
        partialKey(one, at, { attempt: 1, n: 1 }, zst),
        keptKey(one, at, 1, zst),
        ...[1, 3].flatMap((attempt) =>
          [1, 2].flatMap((generation) => [
            checkpointKey(one, at, { attempt, generation }, zst),
            ...[2, 7].map((segment) => segmentKey(one, at, { attempt, generation, segment }, zst)),
          ]),
        ),
      ]);
    // Half of the pairs differ only by an ending.
    const pair = fc.oneof(
      fc.tuple(path, path),
      fc
        .tuple(path, fc.array(fc.constantFrom(...pieces.slice(0, -1)), { minLength: 1, maxLength: 4 }))
        .map(([one, more]): [string, string] => [one, one + more.join('')]),
    );
    fc.assert(
      fc.property(pair, fc.constantFrom('7', '1-1', '2'), ([a, b], index) => {
        fc.pre(a !== b);
        const at = { taskName: 't', index };
        const taken = new Set(keysOf(a, at));
        expect(keysOf(b, at).filter((key) => taken.has(key))).toEqual([]);
      }),
      { numRuns: 20_000 },
    );
  });
});

describe('all keys of a path', () => {
  it('begin alike, so that a listing finds them, however long the path is', () => {
    const nearLimit = fc
      .integer({ min: 600, max: 900 })
      .map((length) => `${'d'.repeat(150)}/`.repeat(6).slice(0, length));
    const path = fc.oneof(
      anyPath,
      nearLimit.map((text) => text.replace(/\/$/, 'd')),
    );
    fc.assert(
      fc.property(path, fc.boolean(), (one, zst) => {
        const at = { attempt: 1234, generation: 567_890, segment: 12_345 };
        const wide = { taskName: 't'.repeat(64), index: 'i'.repeat(64) };
        const moment = segmentKey(one, wide, at, zst);
        expect(moment.startsWith(momentPrefix(one, wide))).toBe(true);
        expect(parseMoment(moment.slice(momentPrefix(one, wide).length))?.attempt).toBe(1234);
        expect(partialKey(one, wide, { attempt: 1234, n: 5 }, zst).startsWith(partialPrefix(one, wide))).toBe(
          true,
        );
        expect(Buffer.byteLength(moment)).toBeLessThanOrEqual(900);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('record keys', () => {
  it('sort in the order of time', () => {
    const keys = [
      recordKey(scope, 9, 999_999, 'done'),
      recordKey(scope, 10, 0, 'started'),
      recordKey(scope, 2, 3, 'stored'),
    ];
    expect(keys.toSorted().map((key) => parseRecordKey(key)?.attempt)).toEqual([2, 9, 10]);
  });

  it('say attempt, sequence, kind and status', () => {
    expect(parseRecordKey(recordKey(scope, 3, 12, 'failed-74'))).toEqual({
      attempt: 3,
      seq: 12,
      kind: 'failed',
      status: 74,
    });
    expect(parseRecordKey(`${recordPrefix(scope)}notes.txt`)).toBeUndefined();
    // No attempt has such a number: whoever took the next one could not write its records.
    for (const [attempt, seq] of [
      [Number.MAX_SAFE_INTEGER, 0],
      [1, 10 ** 9],
    ] as const)
      expect(parseRecordKey(recordKey(scope, attempt, seq, 'started'))).toBeUndefined();
  });
});

describe('what deaths have left of a result', () => {
  const prefix = partialPrefix('r.dat', scope);

  it.each([
    [{ attempt: 2, n: 0 }, true],
    [{ attempt: 13, n: 0 }, false],
    [{ attempt: 10, n: 4 }, true],
  ])('is found below one prefix, with its attempt: %j', (at, compressed) => {
    const key = partialKey('r.dat', scope, at, compressed);
    expect(key.startsWith(prefix)).toBe(true);
    expect(parsePartial(key.slice(prefix.length))).toBe(at.attempt);
  });

  it.each(['', '0', '01', '2x', '2.gz', '2.zst.7', 'x'])('%j below it is something else', (rest) => {
    expect(parsePartial(rest)).toBeUndefined();
  });
});

describe.each(['.age', '.gpg'] as const)('keys of sealed objects that end in %s', (sealed) => {
  const own = { ...scope, sealed };
  const push = '1fd1a0e3-0a43-4c41-9a3a-0a0a6a1b2c3d';
  const written = { push, index: '7', capture: '0' };

  it.each([true, false])('are read as they are written, compressed: %s', (compressed) => {
    const result = resultKey('r.dat', own, compressed);
    const kept = keptKey('r.dat', own, 3, compressed);
    const partial = partialKey('r.dat', own, { attempt: 2, n: 1 }, compressed);
    const checkpoint = checkpointKey('r.dat', own, { attempt: 2, generation: 31 }, compressed);
    const segment = segmentKey('r.dat', own, { attempt: 2, generation: 31, segment: 4 }, compressed);
    for (const key of [result, kept, partial, checkpoint, segment]) {
      expect(key.endsWith(sealed)).toBe(true);
      expect(sealedEnding(key)).toBe(sealed);
      expect(isCompressedKey(key)).toBe(compressed);
    }
    expect(pathOfResult(result, scope)).toBe('r.dat');
    expect(originOf(result, written)).toMatchObject({ kind: 'result', path: 'r.dat' });
    for (const key of [kept, partial, checkpoint, segment])
      expect(originOf(key, written)).toMatchObject({ kind: 'other' });
    expect(parseKept(kept.slice(keptPrefix('r.dat', scope).length))).toBe(3);
    expect(parsePartial(partial.slice(partialPrefix('r.dat', scope).length))).toBe(2);
    const rest = (key: string): string => key.slice(momentPrefix('r.dat', scope).length);
    expect(parseMoment(rest(checkpoint))).toEqual({ attempt: 2, isSegment: false });
    expect(parseMoment(rest(segment))).toEqual({ attempt: 2, isSegment: true });
    expect(parseSegmentKey(segment)).toEqual({ attempt: 2, segment: 4 });
    const output = { attempt: 2, stream: 'stdout', first: 9, compressed } as const;
    expect(parseOutputKey(outputKey(own, output))).toEqual(output);
    for (const [key, kind] of [
      [result, 'result'],
      [kept, 'older'],
      [partial, 'partials'],
      [checkpoint, 'checkpoints'],
    ] as const)
      expect(shapeOf(key, 'lmp')).toMatchObject({ kind, index: '7' });
    const file = { path: 'r.dat', key: result, push, attempt: 2, md5: '0'.repeat(32), size: 9 };
    const stored = { ...file, kind: 'file', compressed, mtimeNs: '1', mode: 0o644 } as const;
    const codec = storedFileRow('7');
    const row = Buffer.alloc(codec.bytes);
    expect(codec.write(stored, row, 0, 'r.dat')).toBe(true);
    expect(codec.read(row, 0, 'r.dat')).toEqual(stored);
  });
});
