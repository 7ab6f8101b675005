// Deletes all that is stored of some indices. Each is taken over first, as a later attempt would: whoever is still at
// work on it is fenced, and a record says that nothing of it is stored any more. So after a death at any point a start
// begins from nothing, and another removal goes on. Records go last: they say whose the objects are.
import { randomUUID } from 'node:crypto';
import os from 'node:os';
import { parseRecordKey, recordKey, TASKS_PREFIX } from '../../model/format/keys.ts';
import { outputPrefix } from '../../model/format/output-keys.ts';
import { type CaptureRecord, type RecordKind, textWithSum } from '../../model/format/records.ts';
import { forEachAtOnce } from '../../model/waiting.ts';
import { clockMs } from '../../native/clock.ts';
import { isClaim, readClaim } from '../../records/claim.ts';
import { listRecords } from '../../records/list.ts';
import { ABSENT, type ListedObject } from '../../store/contract/store.ts';
import { indexDetails } from '../details.ts';
import type { StoredArray } from '../stored-array.ts';
import { shapeOf } from '../shape.ts';
import type { IndexRow } from '../survey.ts';

const AT_ONCE = 16;

/** An index that is ours to remove. */
interface Taken {
  /** The attempt that we have claimed; of a dry run the one that we would claim. */
  readonly attempt: number;
  /** The `run` that objects of this task and index carry. */
  readonly runs: ReadonlySet<string>;
}

export class Removal {
  readonly #array: StoredArray;
  readonly #dryRun: boolean;
  readonly #signal: AbortSignal;
  readonly #taken = new Map<string, Taken>();
  /** Indices of which something stays. */
  readonly stays: { readonly index: string; readonly why: string }[] = [];
  objects = 0;
  bytes = 0;

  constructor(array: StoredArray, dryRun: boolean, signal: AbortSignal) {
    this.#array = array;
    this.#dryRun = dryRun;
    this.#signal = signal;
  }

  /** None of the rows is of an attempt that runs. */
  async remove(rows: readonly IndexRow[]): Promise<void> {
    await forEachAtOnce(rows, AT_ONCE, (row) => this.#take(row));
    await forEachAtOnce(this.#array.store.list('', this.#signal), AT_ONCE, (object) => this.#object(object));
    await forEachAtOnce([...this.#taken], AT_ONCE, ([index, taken]) => this.#records(index, taken));
  }

  async #take({ index, newest }: IndexRow): Promise<void> {
    const { attempts, problems } = await indexDetails(this.#array, index, this.#signal);
    const runs = new Set(attempts.map(({ record }) => record.runToken));
    const attempt = newest.attempt + 1;
    if (attempts.length === 0) return this.#stays(index, problems[0] ?? 'none of its records can be read');
    if (!this.#dryRun && !(await this.#claim(index, attempt))) return this.#stays(index, STARTED);
    this.#taken.set(index, { attempt, runs });
  }

  /** False if somebody else has taken that attempt. */
  async #claim(index: string, attempt: number): Promise<boolean> {
    const isOurs = await this.#write(index, { attempt, seq: 0, kind: 'started' });
    return isOurs && (await this.#write(index, { attempt, seq: 1, kind: 'ended' }));
  }

  async #write(
    index: string,
    what: {
      readonly attempt: number;
      readonly seq: number;
      readonly kind: RecordKind;
    },
  ): Promise<boolean> {
    const { store, taskName } = this.#array;
    const [push, at] = [randomUUID(), new Date(clockMs()).toISOString()];
    const record: CaptureRecord = {
      format: 1,
      push,
      capture: CAPTURE_VERSION,
      ...what,
      at,
      task: taskName,
      index,
      runToken: push,
      host: os.hostname(),
      argv: ['capture', 'rm'],
      scheduler: {},
      startedAt: at,
      segments: [],
      results: [],
      partials: [],
      kept: {},
      generations: [],
      removed: true,
      left: [],
    };
    const key = recordKey({ taskName, index }, what.attempt, what.seq, what.kind);
    const body = Buffer.from(textWithSum(record));
    const outcome = await store.put(key, body, {
      meta: { push },
      precondition: ABSENT,
      signal: this.#signal,
    });
    return outcome.kind === 'stored';
  }

  async #object({ key, sizeBytes }: ListedObject): Promise<void> {
    if (key.startsWith(TASKS_PREFIX)) return;
    const { store, taskName } = this.#array;
    const index = shapeOf(key, taskName)?.index;
    const taken = index === undefined ? undefined : this.#taken.get(index);
    if (index === undefined || taken === undefined) return;
    // A name may be anybody's: an input that somebody uploaded, the index of another task.
    const head = await store.head(key, this.#signal);
    if (!taken.runs.has(head?.meta['run'] ?? '')) return;
    if (await this.#isStartedAgain(index, taken)) return;
    await this.#delete([key]);
    this.objects += 1;
    this.bytes += sizeBytes;
  }

  async #records(index: string, taken: Taken): Promise<void> {
    const { store, taskName } = this.#array;
    const scope = { taskName, index };
    if (await this.#isStartedAgain(index, taken)) return this.#stays(index, STARTED);
    for await (const { key, sizeBytes } of store.list(outputPrefix(scope), this.#signal)) {
      await this.#delete([key]);
      this.objects += 1;
      this.bytes += sizeBytes;
    }
    const { keys } = await listRecords(store, scope, this.#signal);
    const isOurs = (key: string): boolean => parseRecordKey(key)?.attempt === taken.attempt;
    const isSegment = (key: string): boolean => parseRecordKey(key)?.kind === 'list';
    const others = keys.filter((key) => !isOurs(key));
    // No record ever names a segment that is gone; and what says that nothing is stored goes when nothing else is left.
    await this.#delete(others.filter((key) => !isSegment(key)));
    await this.#delete(others.filter(isSegment));
    for (const key of keys.filter(isOurs)) await this.#delete([key]);
  }

  async #isStartedAgain(index: string, { attempt }: Taken): Promise<boolean> {
    const { store, taskName } = this.#array;
    const next = this.#dryRun ? attempt : attempt + 1;
    return (await readClaim(store, { taskName, index }, next, this.#signal)) !== 'gone';
  }

  async #delete(keys: readonly string[]): Promise<void> {
    if (!this.#dryRun && keys.length > 0) await this.#array.store.delete(keys, this.#signal);
  }

  #stays(index: string, why: string): void {
    this.stays.push({ index, why });
  }
}

/** A removal that was ended before it could say so: no task runs. */
export async function isRemoval(
  { store, taskName }: StoredArray,
  row: IndexRow,
  signal: AbortSignal,
): Promise<boolean> {
  const { index, newest } = row;
  if (newest.seq !== 0) return false;
  const claim = await readClaim(store, { taskName, index }, newest.attempt, signal);
  return isClaim(claim) && claim.removed === true;
}

const STARTED = 'it was started again meanwhile';
