// `--array` of the commands that can be asked about some indices of an array.
import type { Reader } from '../cli/options/readers.ts';
import { type IndexSet, parseIndexSet } from '../model/index-set.ts';

const indexSet: Reader<IndexSet> = (text) => {
  const value = parseIndexSet(text);
  return value === undefined ? { is: 'not a set of indices', example: '0-99 or 3,17-19,40-60:2' } : { value };
};

/** The help is the command's own. */
export const ARRAY_OPTION = { flags: '--array <set>', kind: 'value', read: indexSet } as const;
