// The current view of the report: which indices are shown, and which one is open. The hash of the URL contains all of
// it, so that links work. Pure.
import type { State } from '../../../model/format/json-output.ts';
import { hasIndex, numberOfIndex, parseIndexSet } from '../../../model/index-set.ts';
import { STATES, stateText } from '../../state.ts';
import { type IndexEntry, lastOf, type Report, textOf } from '../data.ts';
import { lineWords } from './reasons.ts';

export interface View {
  /** A set of indices, or words that must all occur in an index, its state, host, reason or last line of output. */
  readonly query: string;
  /** Only these states; empty: all. */
  readonly states: readonly State[];
  /** The index that is open. */
  readonly index: string | undefined;
  readonly colour: Colour;
}

export const COLOURS = ['state', 'time', 'lost', 'memory', 'attempts'] as const;
export type Colour = (typeof COLOURS)[number];

/** Parses `#index=17&state=failed,stale&q=node17`; invalid parts are ignored. */
export function viewOf(hash: string): View {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const names = (given.get('state') ?? '').split(',');
  return {
    query: given.get('q') ?? '',
    states: STATES.filter((state) => names.includes(state)),
    index: given.get('index') ?? undefined,
    colour: COLOURS.find((colour) => colour === given.get('colour')) ?? 'state',
  };
}

/** Empty for the initial view. */
export function hashOf({ query, states, index, colour }: View): string {
  const named = new URLSearchParams();
  if (index !== undefined) named.set('index', index);
  if (states.length > 0) named.set('state', states.join(','));
  if (query !== '') named.set('q', query);
  if (colour !== 'state') named.set('colour', colour);
  const text = named.toString();
  return text === '' ? '' : `#${text}`;
}

export function shownOf(report: Report, { query, states }: View): readonly IndexEntry[] {
  const matches = matcherOf(report, query.trim());
  return report.entries.filter(
    (entry) => (states.length === 0 || states.includes(entry.state)) && matches(entry),
  );
}

function matcherOf(report: Report, query: string): (entry: IndexEntry) => boolean {
  if (query === '') return () => true;
  const set = parseIndexSet(query);
  if (set !== undefined)
    return ({ index }) => {
      const number = numberOfIndex(index);
      return number !== undefined && hasIndex(set, number);
    };
  const words = query.toLowerCase().split(/\s+/);
  return (entry) => {
    const last = lastOf(entry);
    const texts = last === undefined ? [] : [textOf(report, last.host), textOf(report, last.how)];
    const all = [entry.index, stateText(entry), ...texts, lineWords(entry)].join(' ').toLowerCase();
    return words.every((word) => all.includes(word));
  };
}
