// The data that the table and JSON share, and the words that both need.
import { unionOf } from '../../model/checkpoint/history.ts';
import type { StoredStatus } from '../../model/format/json-output.ts';
import { formatAge } from '../../model/units.ts';
import { whyOf } from '../attempt.ts';
import type { NewestRecord } from '../details.ts';
import type { StoredArray } from '../stored-array.ts';
import type { Counts, IndexState } from '../state.ts';
import type { IndexRow } from '../survey.ts';

export interface View {
  readonly array: StoredArray;
  /** All indices to count, in order. It may be called several times. */
  readonly states: () => Iterable<IndexState>;
  readonly counts: Counts;
  /** By the store's clock. */
  readonly nowMs: number;
  readonly all: boolean;
  readonly details: boolean;
  /** Indices that Slurm still runs, or is going to, if it was asked. */
  readonly waiting: ReadonlySet<string>;
}

/** Undefined if no record says what is stored. */
export function storedOf({ newest }: NewestRecord, row: IndexRow | undefined): StoredStatus | undefined {
  if (newest === undefined) return undefined;
  const { results } = unionOf([newest], newest.record.runId);
  let bytes = 0;
  for (const { size } of results.values()) bytes += size;
  return {
    host: newest.record.host,
    results: results.size,
    bytes,
    peakMemoryBytes: newest.record.resources?.task?.peakMemoryBytes,
    why: newest.record.attempt === row?.newest.attempt ? whyOf(newest.record) : undefined,
  };
}

/** Its last attempt has ended, and Slurm runs it again. */
export function isRequeued({ index, state, row }: IndexState, { waiting }: View): boolean {
  return state === 'preempted' && (row?.job === 'alive' || waiting.has(index));
}

export function ageText(view: View, atMs: number | undefined): string {
  return atMs === undefined ? '' : formatAge(view.nowMs - atMs);
}
