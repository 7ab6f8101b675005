import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ShownBytes } from '../../src/cli/output.ts';
import { showLines } from '../../src/model/path.ts';
import { harmIn, HOSTILE } from '../support/hostile.ts';

const shownIn = (pieces: readonly Uint8Array[]): string => {
  const shown = new ShownBytes();
  return [...pieces.map((piece) => shown.add(piece)), shown.end()].join('');
};

it('shows what a task wrote: lines and tabs stay, all else that is no text is shown', () => {
  const text = `a\tb\r\n\u001b[31mé€🙂\r\u202e`;
  expect(shownIn([Buffer.from(text)])).toBe('a\tb\n\\x1b[31mé€🙂\\x0d\\u202e');
  expect(shownIn([Buffer.from([0x9b, 0x41, 0xe2, 0x82])])).toBe('\\x9bA\\xe2\\x82');
  expect(harmIn(shownIn([Buffer.from(HOSTILE)]).replaceAll('\n', ' '))).toEqual([]);
});

it('does not depend on where the pieces end', () => {
  const unit = fc.constantFrom('a', '\r', '\n', '\u001b', '\u009b', 'é', '€', '🙂', '\u202e', '\t');
  fc.assert(
    fc.property(fc.string({ unit, maxLength: 20 }), fc.array(fc.nat(40), { maxLength: 6 }), (text, ends) => {
      const bytes = Buffer.from(text);
      const at = [0, ...ends.map((end) => Math.min(end, bytes.length)).toSorted((a, b) => a - b)];
      const pieces = at.map((from, n) => bytes.subarray(from, at[n + 1] ?? bytes.length));
      expect(shownIn(pieces)).toBe(showLines(text));
    }),
  );
});
