// Derives the state of an index from its row in the survey. Pure: the page of the report uses it, too.
import type { State } from '../model/format/json-output.ts';
import { compareIndices, indicesOf, hasIndex, type IndexSet, numberOfIndex } from '../model/index-set.ts';
import { numberText } from './columns.ts';
import type { IndexRow, Survey } from './survey.ts';

/** Those that need attention come first. */
export const STATES = [
  'failed',
  'stale',
  'missing',
  'preempted',
  'ended',
  'running',
  'done',
] as const satisfies readonly State[];

/** One index of the array, whether or not anything of it is stored. */
export interface IndexState {
  readonly index: string;
  readonly state: State;
  /** Undefined if the state is `missing`. */
  readonly row: IndexRow | undefined;
}

/**
 * A running attempt writes a record at least once an hour (sidecar/queue/recorder). An outage of the store may cost two
 * of them, and the clocks of two machines differ by minutes at most.
 */
export const STALE_AFTER_MS = 130 * 60_000;
export const STALE_AFTER = `${STALE_AFTER_MS / 60_000}m`;

/** All indices of the survey, in order. With `set`: the indices of the set, including the missing ones. */
export function* statesOf(
  { rows, nowMs }: Survey,
  staleAfterMs: number,
  set?: IndexSet,
): Generator<IndexState> {
  const known = (row: IndexRow): IndexState => ({
    index: row.index,
    state: stateOf(row, nowMs, staleAfterMs),
    row,
  });
  if (set === undefined) {
    for (const row of rows) yield known(row);
    return;
  }
  let at = 0;
  for (const wanted of indicesOf(set)) {
    const index = String(wanted);
    while (at < rows.length && compareIndices(rows[at]?.index ?? '', index) < 0) at += 1;
    const row = rows[at];
    yield row?.index === index ? known(row) : { index, state: 'missing', row: undefined };
  }
}

/** The states of all indices that have stored something. */
export function storedStates(
  found: Survey,
  staleAfterMs: number,
  set: IndexSet | undefined,
): readonly IndexState[] {
  const { rows } = found;
  const isWanted = ({ index }: IndexRow): boolean => set === undefined || isIn(set, index);
  return [...statesOf({ ...found, rows: rows.filter(isWanted) }, staleAfterMs)];
}

/**
 * Appended to the state of an index or attempt whose newest record cannot be read: the state comes from its key alone.
 */
export const DAMAGED = '; its newest record is damaged';

/** `failed 1, disk full`: the number is capture's exit status. */
export function stateText({
  state,
  status,
  why,
}: {
  readonly state: State;
  readonly status?: number | undefined;
  /** In a few words. */
  readonly why?: string | undefined;
}): string {
  const text = state === 'failed' && status !== undefined ? `${state} ${status}` : state;
  return why === undefined ? text : `${text}, ${why}`;
}

export type Counts = Readonly<Record<State, number>>;

export function countsOf(states: Iterable<IndexState>): Counts {
  const counts = { failed: 0, stale: 0, missing: 0, preempted: 0, ended: 0, running: 0, done: 0 };
  for (const { state } of states) counts[state] += 1;
  return counts;
}

export function totalOf(counts: Counts): number {
  return STATES.reduce((sum, state) => sum + counts[state], 0);
}

/** `10,000 indices: 12 failed, 3 running, 9,985 done` */
export function countsText(counts: Counts, paint = (_: State, text: string): string => text): string {
  const total = totalOf(counts);
  const parts = STATES.filter((state) => counts[state] > 0).map((state) =>
    paint(state, `${numberText(counts[state])} ${state}`),
  );
  return `${numberText(total)} ${total === 1 ? 'index' : 'indices'}: ${parts.join(', ')}`;
}

/** Indices in the survey that are not in the set. */
export function othersThan({ rows }: Survey, set: IndexSet): readonly string[] {
  return rows.map(({ index }) => index).filter((index) => !isIn(set, index));
}

function isIn(set: IndexSet, index: string): boolean {
  const number = numberOfIndex(index);
  return number !== undefined && hasIndex(set, number);
}

export function stateOf(
  { newest, telling, seenMs, job }: IndexRow,
  nowMs: number,
  staleAfterMs: number,
): State {
  const { kind } = newest;
  if (kind === 'done' || kind === 'failed' || kind === 'preempted' || kind === 'ended') return kind;
  const hasSign = seenMs === undefined || nowMs - seenMs <= staleAfterMs;
  if (hasSign && job !== 'gone') return 'running';
  // A later attempt that was only claimed has not changed what is stored (sidecar/startup/done-already).
  return newest.seq === 0 && telling?.kind === 'done' ? 'done' : 'stale';
}
