// Names that tasks may choose: any bytes except NUL and slash, long ones, and ones that look like capture's own keys.
import fc from 'fast-check';
import { decodePath } from '../../src/model/path.ts';

const WORDS = [
  '.',
  '%',
  '~',
  '%~',
  '.zst',
  '%2Ezst',
  '.1',
  '.3',
  'é',
  '\u{1F600}',
  '\n',
  ' ',
  '.partial-1',
  '.lmp',
  '.2-5',
  '.~1~',
];

const bytes = fc
  .uint8Array({ minLength: 1, maxLength: 100 })
  .map((some) => decodePath(some.map((byte) => (byte === 0 || byte === 0x2f ? 0x61 : byte))));
const word = fc.oneof(fc.constantFrom(...WORDS), fc.string({ unit: 'binary', minLength: 1, maxLength: 4 }));
const words = fc
  .array(word, { minLength: 1, maxLength: 8 })
  .map((some) => decodePath(Buffer.from(some.join('').replaceAll(/[\0/]/g, 'b'))));
const long = fc
  .tuple(fc.constantFrom('a', '%', 'é', decodePath(Buffer.from([0xff]))), fc.integer({ min: 60, max: 255 }))
  .map(([unit, length]) => unit.repeat(Math.floor(length / Buffer.byteLength(unit.replace(/\p{Cs}/u, 'x')))));

/** One component of a path. */
export const anyName = fc
  .oneof(words, bytes, long)
  .map((name) => (name === '.' || name === '..' ? 'dots' : name));

/** A path of one to nine components; the long ones make keys of more than 900 bytes. */
export const anyPath = fc.array(anyName, { minLength: 1, maxLength: 9 }).map((parts) => parts.join('/'));
