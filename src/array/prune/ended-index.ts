// Prepares an ended index for deletions. First a record of its last attempt drops the objects. Then a check makes sure
// that nobody has started the index again. A later claim reads this record, so no later attempt needs the deleted
// objects, however long the deletion takes.
import { randomUUID } from 'node:crypto';
import { type History, unionOf, type WholeRecord } from '../../model/checkpoint/history.ts';
import { isProofOfLife } from '../../model/checkpoint/restore-order.ts';
import { keptGenerations, generationKeys } from '../../model/checkpoint/retention.ts';
import { recordKey, sealedEnding } from '../../model/format/keys.ts';
import { type CaptureRecord, type Generation, textWithSum } from '../../model/format/records.ts';
import { readClaim } from '../../records/claim.ts';
import { detailsOf } from '../details.ts';
import type { StoredArray } from '../stored-array.ts';
import type { IndexRow } from '../survey.ts';
import { ABSENT } from '../../store/contract/store.ts';

export interface EndedIndex {
  /** The last attempt. */
  readonly attempt: number;
  /** The values of `run` in the metadata of this task and index's objects. */
  readonly runs: ReadonlySet<string>;
  /** Checkpoint objects to keep; undefined: all. */
  readonly alive: ReadonlySet<string> | undefined;
  /** If the index is not done, a partial result may be whole, and the only copy. */
  readonly isDone: boolean;
  /** Checkpoint members and half-written results by key, as its records name them. */
  readonly named: ReadonlyMap<string, NamedObject>;
}

export interface Question {
  /** How many checkpoint sets to keep; undefined: all. */
  readonly keep: number | undefined;
  /** Writes nothing. */
  readonly dryRun: boolean;
}

/** Resolves to the reason if nothing of the index may be deleted. */
export async function endedIndex(
  array: StoredArray,
  row: IndexRow,
  { keep, dryRun }: Question,
  signal: AbortSignal,
): Promise<EndedIndex | string> {
  const { index, newest } = row;
  const { attempts, problems } = await detailsOf(array, row, signal);
  // An unreadable record may name any object.
  if (problems.length > 0) return problems[0] ?? '';
  const last = attempts.at(-1)?.record;
  if (last?.attempt !== newest.attempt || last.seq !== newest.seq) return STARTED;
  const history = unionOf(attempts, last.runId);
  const runs = new Set(attempts.map(({ record }) => record.runToken));
  const kept = keep === undefined || last.left.length > 0 ? undefined : keptOf(history, keep);
  if (kept !== undefined && !dryRun && kept.length < history.generations.length) {
    const isWritten = await writeRecord(array, last, kept, signal);
    if (!isWritten) return 'another command is at work on it';
  }
  if (await isStartedAgain(array, index, newest.attempt, signal)) return STARTED;
  const others = attempts.filter(({ record }) => record.runId !== last.runId);
  const alive =
    kept && new Set([...kept, ...others.flatMap(({ record }) => record.generations)].flatMap(generationKeys));
  const isDone = last.kind === 'done';
  return { attempt: newest.attempt, runs, alive, isDone, named: namedBy(attempts) };
}

interface NamedObject {
  readonly push: string;
  /** The size as stored. */
  readonly sizeBytes: number | undefined;
}

function namedBy(attempts: readonly WholeRecord[]): ReadonlyMap<string, NamedObject> {
  const named = new Map<string, NamedObject>();
  for (const { record } of attempts) {
    for (const file of [...record.generations.flatMap(({ members }) => members), ...record.partials]) {
      const sizeBytes =
        file.storedSize ?? (file.compressed || sealedEnding(file.key) !== undefined ? undefined : file.size);
      named.set(file.key, { push: file.push, sizeBytes });
    }
  }
  return named;
}

const STARTED = 'it was started again meanwhile';

export async function isStartedAgain(
  { store, taskName }: StoredArray,
  index: string,
  attempt: number,
  signal: AbortSignal,
): Promise<boolean> {
  return (await readClaim(store, { taskName, index }, attempt + 1, signal)) !== 'gone';
}

function keptOf({ generations }: History, keep: number): readonly Generation[] {
  return keep === 0 ? [] : keptGenerations(generations, keep, isProofOfLife);
}

/** Writes the last record again, without the dropped sets. Returns false if somebody else has written a record. */
async function writeRecord(
  { store, taskName }: StoredArray,
  last: CaptureRecord,
  generations: readonly Generation[],
  signal: AbortSignal,
): Promise<boolean> {
  const push = randomUUID();
  const record: CaptureRecord = {
    ...last,
    push,
    seq: last.seq + 1,
    generations: [...generations],
    pruned: true,
  };
  const kind = last.kind === 'failed' ? `failed-${last.end?.status ?? 1}` : last.kind;
  const key = recordKey({ taskName, index: last.index }, last.attempt, record.seq, kind);
  const outcome = await store.put(key, Buffer.from(textWithSum(record)), {
    meta: { push },
    precondition: ABSENT,
    signal,
  });
  return outcome.kind === 'stored';
}
