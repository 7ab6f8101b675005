// Deletes everything that is stored of some indices. It first claims each index, like a later attempt: this fences a
// running attempt. A record then says that nothing of the index is stored. So if the removal is killed at any point, a
// new start begins from scratch, and another removal can continue. Records are deleted last, because they say which
// objects belong to the index.
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

/** An index that we have claimed for removal. */
interface ClaimedIndex {
  /** The attempt that we have claimed; in a dry run, the one that we would claim. */
  readonly attempt: number;
  /** The values of `run` in the metadata of this task and index's objects. */
  readonly runs: ReadonlySet<string>;
}

export class Removal {
  readonly #array: StoredArray;
  readonly #dryRun: boolean;
  readonly #signal: AbortSignal;
  readonly #taken = new Map<string, ClaimedIndex>();
  /** Indices that keep some of their objects. */
  readonly stays: { readonly index: string; readonly why: string }[] = [];
  objects = 0;
  bytes = 0;

  constructor(array: StoredArray, dryRun: boolean, signal: AbortSignal) {
    this.#array = array;
    this.#dryRun = dryRun;
    this.#signal = signal;
  }

  /** None of the rows may belong to a running attempt. */
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

  /** Returns false if somebody else has claimed that attempt. */
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
    // The name proves nothing: the object may be an uploaded input, or belong to an index of another task.
    const head = await store.head(key, this.#signal);
    if (!taken.runs.has(head?.meta['run'] ?? '')) return;
    if (await this.#isStartedAgain(index, taken)) return;
    await this.#delete([key]);
    this.objects += 1;
    this.bytes += sizeBytes;
  }

  async #records(index: string, taken: ClaimedIndex): Promise<void> {
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
    // Segments are deleted after the records that name them. The record that says that nothing is stored is deleted
    // last.
    await this.#delete(others.filter((key) => !isSegment(key)));
    await this.#delete(others.filter(isSegment));
    for (const key of keys.filter(isOurs)) await this.#delete([key]);
  }

  async #isStartedAgain(index: string, { attempt }: ClaimedIndex): Promise<boolean> {
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

/** Whether the newest attempt is a removal that was killed before its end, so that no task runs. */
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
