// One pruning at work: goes through a listing of the store once, and asks each index that has something to lose whether
// it may. What it knows of an index stays in memory, some hundred bytes; of objects it keeps nothing.
import { parseRecordKey, TASKS_PREFIX } from '../../model/format/keys.ts';
import { isTaskName } from '../../model/format/task-name.ts';
import { isLast, RECORD_KINDS } from '../../model/format/records.ts';
import { forEachAtOnce } from '../../model/waiting.ts';
import { listRecords } from '../../records/list.ts';
import type { ListedObject, ObjectHead } from '../../store/contract/store.ts';
import type { StoredArray } from '../stored-array.ts';
import type { IndexRow } from '../survey.ts';
import { type EndedIndex, endedIndex, isStartedAgain } from './ended-index.ts';
import { type Kind, shapeOf } from '../shape.ts';

/** Each is a HEAD and a DELETE, and for the first of an index the reading of its records. */
const OBJECTS_AT_ONCE = 16;

export interface Choice {
  readonly kinds: ReadonlySet<Kind>;
  readonly keep: number | undefined;
  readonly dryRun: boolean;
}

interface Total {
  objects: number;
  bytes: number;
}

export class Pruning {
  readonly #array: StoredArray;
  readonly #ended: ReadonlyMap<string, IndexRow>;
  readonly #choice: Choice;
  readonly #signal: AbortSignal;
  readonly #asked = new Map<string, Promise<EndedIndex | undefined>>();
  /** Indices of which nothing was deleted, although something could be. */
  readonly stays: { readonly index: string; readonly why: string }[] = [];
  readonly totals: Record<Kind, Total> & { uploads: number } = {
    checkpoints: { objects: 0, bytes: 0 },
    partials: { objects: 0, bytes: 0 },
    older: { objects: 0, bytes: 0 },
    uploads: 0,
  };
  /** False if the store does not let us look for uploads. */
  sawUploads = true;

  /** `ended`: the indices that may lose anything. */
  constructor(array: StoredArray, ended: ReadonlyMap<string, IndexRow>, choice: Choice, signal: AbortSignal) {
    this.#array = array;
    this.#ended = ended;
    this.#choice = choice;
    this.#signal = signal;
  }

  async objects(): Promise<void> {
    if (this.#choice.kinds.size === 0) return;
    const listing = this.#array.store.list('', this.#signal);
    await forEachAtOnce(listing, OBJECTS_AT_ONCE, (object) => this.#look(object));
  }

  /** A put that is seen before its index is seen to have ended is none of a running attempt. */
  async uploads(): Promise<void> {
    const { store, taskName } = this.#array;
    const isGivenUp = async (key: string): Promise<boolean> => {
      const index = shapeOf(key, taskName)?.index;
      if (index === undefined || !this.#ended.has(index) || !(await this.#isOver(index))) return false;
      this.totals.uploads += 1;
      return !this.#choice.dryRun;
    };
    this.sawUploads = await store.sweep('', isGivenUp, this.#signal);
  }

  async #look({ key, sizeBytes }: ListedObject): Promise<void> {
    if (key.startsWith(TASKS_PREFIX)) return;
    const { store, taskName } = this.#array;
    const { kinds, dryRun } = this.#choice;
    const { kind, index, attempt } = shapeOf(key, taskName) ?? { kind: 'result' };
    if (kind === 'result' || index === undefined || !kinds.has(kind)) return;
    const row = this.#ended.get(index);
    if (row === undefined) return;
    // All sets of an index that is not done stay, unless --keep says how many.
    if (kind === 'checkpoints' && this.#keepOf(row) === undefined) return;
    const ended = await this.#ask(row);
    if (ended === undefined || (attempt ?? 0) > ended.attempt) return;
    if (kind === 'checkpoints' && (ended.alive === undefined || ended.alive.has(key))) return;
    if (kind === 'partials' && !ended.isDone) return;
    if (!isOf(ended, await store.head(key, this.#signal))) return;
    // Its key does not say which attempt made it.
    if (attempt === undefined && (await isStartedAgain(this.#array, index, ended.attempt, this.#signal)))
      return;
    if (!dryRun) await store.delete([key], this.#signal);
    this.totals[kind].objects += 1;
    this.totals[kind].bytes += sizeBytes;
  }

  #keepOf({ newest }: IndexRow): number | undefined {
    const { kinds, keep } = this.#choice;
    if (!kinds.has('checkpoints')) return undefined;
    return keep ?? (newest.kind === 'done' ? 0 : undefined);
  }

  #ask(row: IndexRow): Promise<EndedIndex | undefined> {
    const known = this.#asked.get(row.index);
    if (known !== undefined) return known;
    const question = { keep: this.#keepOf(row), dryRun: this.#choice.dryRun };
    const asking = endedIndex(this.#array, row, question, this.#signal).then((answer) => {
      if (typeof answer !== 'string') return answer;
      this.stays.push({ index: row.index, why: answer });
      return undefined;
    });
    this.#asked.set(row.index, asking);
    return asking;
  }

  /** Of no task that shares the prefix: the key of a result does not say of which it is. */
  async #isOver(index: string): Promise<boolean> {
    const { store } = this.#array;
    const folders = (await store.folders(TASKS_PREFIX, this.#signal)).filter(isTaskName);
    for (const taskName of folders) {
      const { keys } = await listRecords(store, { taskName, index }, this.#signal);
      const kinds = keys.map((key) => parseRecordKey(key)?.kind);
      const newest = RECORD_KINDS.find((kind) => kind === kinds.findLast((one) => one !== 'list'));
      if (newest !== undefined && !isLast(newest)) return false;
    }
    return true;
  }
}

/**
 * A name may be anybody's, and what a record says, too: task names hold dots, so the checkpoint `k.run.sh.0.1-1` could be one of
 * task `sh` or of task `run.sh`. The metadata of the object name its run, unless a copy has lost them.
 */
function isOf({ runs, named }: EndedIndex, head: ObjectHead | undefined): boolean {
  if (head === undefined) return false;
  const { push, run = '' } = head.meta;
  const recorded = named.get(head.key);
  if (push === undefined && recorded !== undefined) return recorded.sizeBytes === head.sizeBytes;
  return runs.has(run) && (recorded === undefined || recorded.push === push);
}
