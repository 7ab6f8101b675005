// The text of a record or list segment: JSON that ends with a checksum of itself. If a bit flips in the store, in a
// field's name or in a path, nothing else may be restored without a word.
import { createHash } from 'node:crypto';

const HEX_DIGITS = 64;
const BEFORE = ',"sum":"';
const AFTER = '"}';
const ENDING_LENGTH = BEFORE.length + HEX_DIGITS + AFTER.length;

/** The text of an object that has at least one field; its last field is `sum`. */
export function textWithSum(body: object): string {
  const bare = JSON.stringify(body);
  return `${bare.slice(0, -1)}${BEFORE}${sumOf(bare)}${AFTER}`;
}

/**
 * `right`, `wrong`, or `none` if the text does not end with a checksum. The sum is the SHA-256 (lower case hex) of
 * the text in UTF-8 with `,"sum":"..."` left out.
 */
export function checkSum(text: string): 'right' | 'wrong' | 'none' {
  const ending = text.slice(-ENDING_LENGTH);
  if (!ending.startsWith(BEFORE) || !ending.endsWith(AFTER)) return 'none';
  const sum = ending.slice(BEFORE.length, -AFTER.length);
  return sumOf(`${text.slice(0, -ENDING_LENGTH)}}`) === sum ? 'right' : 'wrong';
}

function sumOf(bare: string): string {
  return createHash('sha256').update(bare).digest('hex');
}
