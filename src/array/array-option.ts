// Options of several commands: which indices there should be, and from when on one of them is stale.
import { durationMs, type Reader } from '../cli/options/readers.ts';
import { type IndexSet, NO_INDEX_SET, parseIndexSet } from '../model/index-set.ts';
import { STALE_AFTER } from './state.ts';

const indexSet: Reader<IndexSet> = (text) => {
  const value = parseIndexSet(text);
  return value === undefined ? NO_INDEX_SET : { value };
};

/** The help is the command's own. */
export const ARRAY_OPTION = { flags: '--array <set>', kind: 'value', read: indexSet } as const;

export const STALE_OPTION = {
  flags: '--stale-after <duration>',
  kind: 'value',
  help: 'without a sign of life for so long, an attempt was probably killed; one that runs gives one each hour',
  read: durationMs(1000),
  default: STALE_AFTER,
} as const;
