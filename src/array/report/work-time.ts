// How much work of an index's attempts is kept. An attempt resumes from the checkpoint that it restored. Work before
// that checkpoint is kept; work after it was lost with the earlier attempt. The newest attempt has kept what its newest
// checkpoint holds, whether it still runs or was killed: nobody can tell the two apart at once. Pure.
import type { State } from '../../model/format/json-output.ts';
import { generationName } from '../../model/checkpoint/history.ts';
import { restoreOrder } from '../../model/checkpoint/restore-order.ts';
import type { CaptureRecord, Generation } from '../../model/format/records.ts';

export interface WorkTime {
  readonly attempt: number;
  /** From its start to its newest record, the last sign of life. */
  readonly ranMs: number;
  /** The part that the newest attempt has resumed from, or the next one will. All of it, if the attempt is done. */
  readonly keptMs: number;
}

/**
 * `records`: the newest readable record of each attempt, ascending. If the record that named a checkpoint was deleted,
 * nothing of its attempt counts as kept.
 */
export function workTimes(records: readonly CaptureRecord[], state: State): readonly WorkTime[] {
  const ranMs = (record: CaptureRecord): number =>
    Math.max(0, Date.parse(record.at) - Date.parse(record.startedAt));
  const kept = new Map<number, number>();
  // The attempt that has lost nothing. A later attempt may only have started.
  const whole = state === 'done' ? records.findLast(({ kind }) => kind === 'done') : undefined;
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
