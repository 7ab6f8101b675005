// Options of several commands: which indices there should be, and from when on one of them is stale.
import { durationMs, type Reader } from '../cli/options/readers.ts';
import { type IndexSet, parseIndexSet } from '../model/index-set.ts';
import { STALE_AFTER } from './state.ts';

const indexSet: Reader<IndexSet> = (text) => {
  const value = parseIndexSet(text);
  return value === undefined ? { is: 'not a set of indices', example: '0-99 or 3,17-19,40-60:2' } : { value };
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
