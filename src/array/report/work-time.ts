// How much of what the attempts of an index computed was kept. An attempt goes on from the checkpoint that it restored:
// what was computed up to that checkpoint is kept, what came after it was lost with its attempt. Pure.
import { generationName } from '../../model/checkpoint/history.ts';
import { restoreOrder } from '../../model/checkpoint/restore-order.ts';
import type { CaptureRecord, Generation } from '../../model/format/records.ts';
import type { State } from '../state.ts';

export interface WorkTime {
  readonly attempt: number;
  /** From its start to its last sign of life; of one that runs, to now. */
  readonly ranMs: number;
  /** Of that what the newest attempt goes on from, or the next one will; of one that is done or runs, all. */
  readonly keptMs: number;
}

/**
 * `records`: the newest readable one of each attempt, ascending. If the record that named a checkpoint is gone, nothing
 * of its attempt counts as kept.
 */
export function workTimes(
  records: readonly CaptureRecord[],
  { state, nowMs }: { readonly state: State; readonly nowMs: number },
): readonly WorkTime[] {
  const newest = records.at(-1);
  const ranMs = (record: CaptureRecord): number => {
    const until = state === 'running' && record === newest ? nowMs : Date.parse(record.at);
    return Math.max(0, until - Date.parse(record.startedAt));
  };
  const kept = new Map<number, number>();
  const whole = wholeOf(records, state);
  if (whole !== undefined) kept.set(whole.attempt, ranMs(whole));
  // Back from checkpoint to checkpoint; each is of an earlier attempt, so this ends.
  let from = whole === undefined ? nextCheckpoint(records) : whole.restored;
  let before = whole?.attempt ?? Infinity;
  while (from !== undefined) {
    const attempt = Number.parseInt(from, 10);
    const record = records.find((one) => one.attempt === attempt);
    if (record === undefined || attempt >= before) break;
    const at = generationAt(records, from);
    const upTo = at === undefined ? 0 : Math.max(0, at - Date.parse(record.startedAt));
    kept.set(attempt, Math.min(upTo, ranMs(record)));
    from = record.restored;
    before = attempt;
  }
  return records.map((record) => ({
    attempt: record.attempt,
    ranMs: ranMs(record),
    keptMs: kept.get(record.attempt) ?? 0,
  }));
}

/** The attempt of which nothing is lost, at least so far. */
function wholeOf(records: readonly CaptureRecord[], state: State): CaptureRecord | undefined {
  // A later attempt may only have begun.
  if (state === 'done') return records.findLast(({ kind }) => kind === 'done');
  const newest = records.at(-1);
  // A claim is written before the restore: it does not say from where.
  return state === 'running' && newest !== undefined && newest.seq > 0 ? newest : undefined;
}

/** What an attempt that begins now would resume from. */
function nextCheckpoint(records: readonly CaptureRecord[]): string | undefined {
  const [next] = restoreOrder(records.findLast(({ seq }) => seq > 0)?.generations ?? []);
  return next === undefined ? undefined : generationName(next);
}

function generationAt(records: readonly CaptureRecord[], name: string): number | undefined {
  for (const { generations } of records) {
    const found = generations.find((one: Generation) => generationName(one) === name);
    if (found !== undefined) return Date.parse(found.at);
  }
  return undefined;
}
