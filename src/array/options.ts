// Options and operands that several commands share: the indices that should exist, the chosen index, and the age at
// which an index is stale.
import type { Line } from '../cli/command.ts';
import { durationMs, type Reader } from '../cli/options/readers.ts';
import { hasTooMany, type IndexSet, MOST_INDICES, NO_INDEX_SET, parseIndexSet } from '../model/index-set.ts';
import { showPath } from '../model/path.ts';
import { INDEX } from '../scheduler/identity.ts';
import { STALE_AFTER } from './state.ts';

const TOO_MANY = { is: `too many for one array: at most ${MOST_INDICES}`, example: `0-${MOST_INDICES - 1}` };

const indexSet: Reader<IndexSet> = (text) => {
  const value = parseIndexSet(text);
  if (value === undefined) return NO_INDEX_SET;
  return hasTooMany(value) ? TOO_MANY : { value };
};

/** Each command has its own help text. */
export const ARRAY_OPTION = { flags: '--array <set>', read: indexSet } as const;

export const STALE_OPTION = {
  flags: '--stale-after <duration>',
  help: 'without a sign of life for so long, an attempt was probably killed; one that runs gives one each hour',
  read: durationMs(1000),
  default: STALE_AFTER,
} as const;

const oneIndex: Reader<string> = (text) =>
  INDEX.test(text)
    ? { value: text }
    : { is: 'not an index: 1 to 64 letters, digits, _ and -', example: '17' };

/** Each command has its own help text. */
export const INDEX_OPTION = { flags: '--index <id>', read: oneIndex } as const;

/** The index after the <url>. Undefined if none is given, or if a mistake was reported. */
export function readIndex({ title, operands, values }: Line): string | undefined {
  const { index } = operands;
  const read = index === undefined ? undefined : oneIndex(index);
  if (read === undefined || 'value' in read) return read?.value;
  values.refuse(`'${showPath(index ?? '')}': ${read.is}`, `${title} <url> ${read.example}`);
  return undefined;
}
