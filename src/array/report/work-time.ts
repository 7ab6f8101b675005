// How much work of an index's attempts was kept. An attempt resumes from the checkpoint that it restored. Work before
// that checkpoint is kept; work after it was lost with the earlier attempt. Pure.
import { generationName } from '../../model/checkpoint/history.ts';
import { restoreOrder } from '../../model/checkpoint/restore-order.ts';
import type { CaptureRecord, Generation } from '../../model/format/records.ts';
import type { State } from '../state.ts';

export interface WorkTime {
  readonly attempt: number;
  /** From its start to its last heartbeat; to now if it runs. */
  readonly ranMs: number;
  /**
   * The part that the newest attempt has resumed from, or the next one will. All of it, if the attempt is done or
   * running.
   */
  readonly keptMs: number;
}

/**
 * `records`: the newest readable record of each attempt, ascending. If the record that named a checkpoint was deleted,
 * nothing of its attempt counts as kept.
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
  // Walks back from checkpoint to checkpoint. Each belongs to an earlier attempt, so the loop ends.
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

/** The attempt that has lost nothing, at least so far. */
function wholeOf(records: readonly CaptureRecord[], state: State): CaptureRecord | undefined {
  // A later attempt may only have started.
  if (state === 'done') return records.findLast(({ kind }) => kind === 'done');
  const newest = records.at(-1);
  // A claim is written before the restore, so it does not name the checkpoint.
  return state === 'running' && newest !== undefined && newest.seq > 0 ? newest : undefined;
}

/** The checkpoint that a new attempt would resume from. */
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
