import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  ancestorsOf,
  decodePath,
  encodePath,
  isInside,
  joinPath,
  pathBytes,
  showJson,
  showPath,
} from '../../src/model/path.ts';
import { harmIn, HOSTILE } from '../support/hostile.ts';

/** Bytes that look like names: ASCII, UTF-8 of any length, broken sequences. */
const nameBytes = fc
  .array(
    fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 4 }),
      fc
        .string({ unit: 'binary', minLength: 1, maxLength: 3 })
        .map((text) => new Uint8Array(Buffer.from(text))),
      fc.constantFrom(
        new Uint8Array([0xed, 0xa0, 0x80]),
        new Uint8Array([0xc0, 0xaf]),
        new Uint8Array([0xef, 0xbf, 0xbd]),
      ),
    ),
    { maxLength: 5 },
  )
  .map((pieces) => Buffer.concat(pieces));

describe('names', () => {
  it('come back byte for byte, whatever the bytes', () => {
    fc.assert(
      fc.property(nameBytes, (bytes) => {
        expect(pathBytes(decodePath(bytes)).equals(bytes)).toBe(true);
      }),
      { numRuns: 5000 },
    );
  });

  it('are the ordinary string when they are valid UTF-8', () => {
    for (const name of ['r.dat', 'größe', '\u{1f600}.png', '\ufffd', 'a\nb']) {
      expect(decodePath(Buffer.from(name))).toBe(name);
      expect(encodePath(name)).toBe(name);
    }
  });

  it('differ when their bytes differ', () => {
    fc.assert(
      fc.property(nameBytes, nameBytes, (a, b) => {
        expect(decodePath(a) === decodePath(b)).toBe(a.equals(b));
      }),
    );
  });

  it('go to the system as bytes when they are no UTF-8', () => {
    expect(encodePath(decodePath(Buffer.from([0x61, 0xff])))).toEqual(Buffer.from([0x61, 0xff]));
  });

  it('never carry a control character into a message', () => {
    fc.assert(
      fc.property(nameBytes, (bytes) => {
        // oxlint-disable-next-line no-control-regex -- it is what is looked for
        expect(showPath(decodePath(bytes))).not.toMatch(/[\u0000-\u001f\u007f\ud800-\udfff]/u);
      }),
    );
    expect(showPath('a\nb\u001b[31m\udcff')).toBe('a\\x0ab\\x1b[31m\\xff');
    expect(showPath('\u009b\u202ea\u2066\u2028é🙂')).toBe(String.raw`\u009b\u202ea\u2066\u2028é🙂`);
  });

  it('are text on a terminal, once and for all, and the same JSON', () => {
    const unit = fc.constantFrom(...HOSTILE.split(''), 'é', '🙂', '\\', '"');
    fc.assert(
      fc.property(fc.string({ unit }), (text) => {
        const shown = showPath(text);
        expect(harmIn(shown)).toEqual([]);
        expect(showPath(shown)).toBe(shown);
        expect(harmIn(showJson(text))).toEqual([]);
        expect(JSON.parse(showJson(text))).toBe(text);
      }),
    );
  });
});

describe('paths', () => {
  it.each([
    ['a/b', true],
    ['a/..b', true],
    ['', false],
    ['/a', false],
    ['a/', false],
    ['a//b', false],
    ['./a', false],
    ['a/../b', false],
    ['..', false],
    ['a\0b', false],
  ])('%j stays inside: %j', (path, inside) => expect(isInside(path)).toBe(inside));

  it('join below the work directory', () => {
    expect(joinPath('', 'a')).toBe('a');
    expect(joinPath('a/b', 'c')).toBe('a/b/c');
  });

  it('know the directories above them, up to the work directory', () => {
    expect(ancestorsOf('a/b/c')).toEqual(['a/b', 'a', '']);
    expect(ancestorsOf('a')).toEqual(['']);
    expect(ancestorsOf('')).toEqual([]);
  });
});
