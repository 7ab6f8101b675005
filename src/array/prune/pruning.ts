// One pruning: reads a listing of the store once, and checks each index with deletable objects. It keeps a few hundred
// bytes per index in memory, and nothing per object.
import { parseRecordKey, TASKS_PREFIX } from '../../model/format/keys.ts';
import { isLast, RECORD_KINDS } from '../../model/format/records.ts';
import { forEachAtOnce } from '../../model/waiting.ts';
import { listRecords } from '../../records/list.ts';
import type { ListedObject, ObjectHead } from '../../store/contract/store.ts';
import { type StoredArray, taskNames } from '../stored-array.ts';
import type { IndexRow } from '../survey.ts';
import { type EndedIndex, endedIndex, isStartedAgain } from './ended-index.ts';
import { type Kind, shapeOf } from '../shape.ts';

/** Each is a HEAD and a DELETE; the first one of an index also reads the index's records. */
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
  /** Indices that keep objects that could have been deleted. */
  readonly stays: { readonly index: string; readonly why: string }[] = [];
  readonly totals: Record<Kind, Total> & { uploads: number } = {
    checkpoints: { objects: 0, bytes: 0 },
    partials: { objects: 0, bytes: 0 },
    older: { objects: 0, bytes: 0 },
    uploads: 0,
  };
  /** False if the store does not let us list uploads. */
  sawUploads = true;

  /** `ended`: the indices that may lose objects. */
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

  /** An upload that was listed before its index was seen to have ended does not belong to a running attempt. */
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
    // If an index is not done, all its sets stay, unless --keep gives a number.
    if (kind === 'checkpoints' && this.#keepOf(row) === undefined) return;
    const ended = await this.#ask(row);
    if (ended === undefined || (attempt ?? 0) > ended.attempt) return;
    if (kind === 'checkpoints' && (ended.alive === undefined || ended.alive.has(key))) return;
    if (kind === 'partials' && !ended.isDone) return;
    if (!isOf(ended, await store.head(key, this.#signal))) return;
    // The key does not say which attempt made the object.
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

  /** Checks all tasks that share the prefix, because the key of a result does not name its task. */
  async #isOver(index: string): Promise<boolean> {
    const { store } = this.#array;
    for (const taskName of await taskNames(store, this.#signal)) {
      const { keys } = await listRecords(store, { taskName, index }, this.#signal);
      const kinds = keys.map((key) => parseRecordKey(key)?.kind);
      const newest = RECORD_KINDS.find((kind) => kind === kinds.findLast((one) => one !== 'list'));
      if (newest !== undefined && !isLast(newest)) return false;
    }
    return true;
  }
}

/**
 * Names and records prove nothing. Task names may contain dots, so the checkpoint `k.run.sh.0.1-1` may belong to task
 * `sh` or to task `run.sh`. The object's metadata name its run, unless a copy has lost them.
 */
function isOf({ runs, named }: EndedIndex, head: ObjectHead | undefined): boolean {
  if (head === undefined) return false;
  const { push, run = '' } = head.meta;
  const recorded = named.get(head.key);
  if (push === undefined && recorded !== undefined) return recorded.sizeBytes === head.sizeBytes;
  return runs.has(run) && (recorded === undefined || recorded.push === push);
}
