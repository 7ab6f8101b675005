// What this attempt knows to be stored, and the records that say so. Records are only ever created, one after the
// other. Each contains everything that the attempt knows, so the newest one is enough. Stored content needs no push:
// it is the baseline of its path.
import pLimit from 'p-limit';
import type { Baseline } from '../model/file/baseline.ts';
import { CaptureError } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { plural } from '../model/units.ts';
import { generationName, type History, type WholeRecord } from '../model/checkpoint/history.ts';
import { prunableRecords } from '../model/checkpoint/retention.ts';
import { type KeyScope, recordKey } from '../model/format/keys.ts';
import {
  type Behind,
  type CaptureRecord,
  type Generation,
  isLast,
  whyUnreadable,
  inRecord,
  type LeftFile,
  type RecordKind,
  RESULTS_PER_SEGMENT,
  type StoredFile,
  type Takeover,
  textWithSum,
} from '../model/format/records.ts';
import type { StopCause } from '../model/format/stop-cause.ts';
import { directoriesOf } from '../model/one-tree.ts';
import { PackedMap, type PathMap, type Paths } from '../model/packed/packed-map.ts';
import { storedFileRow } from '../model/packed/stored-file-row.ts';
import { ancestorsOf, type RelPath } from '../model/path.ts';
import { whileLinked } from '../model/waiting.ts';
import { reached } from '../native/failpoint.ts';
import { ABSENT, type Store } from '../store/contract/store.ts';
import type { Fence, Tidy } from './claim.ts';

/** Facts of the run that every record of the attempt contains. */
export interface RunFacts {
  readonly scope: KeyScope;
  readonly attempt: number;
  readonly runId: string | undefined;
  readonly runToken: string;
  readonly host: string;
  readonly argv: readonly string[];
  readonly scheduler: Readonly<Record<string, string>>;
  readonly startedAt: string;
  /** Undefined: nothing is sealed. */
  readonly sealed?: CaptureRecord['sealed'];
}

/** The fields of every record of an attempt. */
export function runFields(
  facts: RunFacts,
): Pick<
  CaptureRecord,
  | 'format'
  | 'capture'
  | 'attempt'
  | 'task'
  | 'index'
  | 'runId'
  | 'runToken'
  | 'host'
  | 'argv'
  | 'scheduler'
  | 'startedAt'
  | 'sealed'
> {
  const { scope, attempt, runId, runToken, host, argv, scheduler, startedAt, sealed } = facts;
  return {
    format: 1,
    capture: CAPTURE_VERSION,
    attempt,
    task: scope.taskName,
    index: scope.index,
    runId,
    runToken,
    host,
    argv: [...argv],
    scheduler: { ...scheduler },
    startedAt,
    sealed,
  };
}

export interface LedgerOptions {
  readonly store: Store;
  readonly fence: Fence;
  readonly facts: RunFacts;
  readonly history: History;
  /** The newest record of the same run id, whose list segments remain in use. */
  readonly base: WholeRecord | undefined;
  /** {@link CaptureRecord.takeovers}, with that of this process. */
  readonly takeovers: readonly Takeover[];
  readonly newId: () => string;
  /** The time of day; default: the machine's. */
  readonly now?: () => Date;
  readonly tidy: Tidy;
  /** The path table, shared with other maps. */
  readonly paths?: Paths;
}

/**
 * A record has limited space. Partial results beyond this are found by their keys, until the last record names all.
 */
const MOST_PARTIALS = 10_000;
/** Partial results, and missing files, that a record names at most if it has no room for all. */
const MOST_NAMES = 10_000;

export interface RecordExtra {
  readonly left?: readonly LeftFile[];
  readonly end?: CaptureRecord['end'];
}

export class Ledger {
  readonly #options: LedgerOptions;
  /** By path: entries that no list segment holds. */
  #inline = new Map<string, StoredFile>();
  #segments: string[];
  readonly #results: PathMap<StoredFile>;
  /** Those that have held results. */
  readonly #directories: PackedMap<true>;
  readonly #kept: Map<string, number>;
  /** By path, oldest first. */
  readonly #partials = new Map<string, StoredFile[]>();
  #generations: readonly Generation[];
  #seq: number;
  /** The number of the first record that this process can write. No other process of the attempt uses it. */
  readonly firstSeq: number;
  #written: string[] = [];
  readonly #inTurn = pLimit(1);
  #limit: AbortSignal | undefined;
  #writtenMs = performance.now();
  /** The last record was written, or is being written. */
  #isOver = false;
  /** The set that the attempt resumed from, for its later records: `<attempt>-<generation>`. */
  restored: string | undefined;
  /** Why the task is asked to end, for its later records. */
  stop: StopCause | undefined;
  /** The last record says that sets were deleted. */
  pruned: true | undefined;
  /** Called for each record: is a result that a set of this attempt was ahead of stored under its name by now? */
  isNamed: (behind: Behind) => boolean = () => false;
  /** Returns the attempt's resource usage; called for each record. */
  used: (() => CaptureRecord['resources']) | undefined;
  /** Objects that no record names yet. A copy has the push id of its original, so the key is part of the identity. */
  readonly #unrecorded = new Map<string, StoredFile>();

  /**
   * Continues with the results of the history. `firstSeq` is 1 after a claim. A sidecar that replaces a dead one skips
   * some numbers: records that the dead one has sent may still arrive.
   */
  constructor(options: LedgerOptions, firstSeq: number) {
    this.#options = options;
    this.#seq = firstSeq;
    this.firstSeq = firstSeq;
    this.#segments = [...(options.base?.record.segments ?? [])];
    this.#results = options.history.results;
    this.#directories = new PackedMap({ bytes: 0, write: () => true, read: () => true }, options.paths);
    for (const dir of directoriesOf(this.#results)) this.#directories.set(dir, true);
    this.#kept = new Map(options.history.kept);
    this.#generations = options.history.generations;
    // Objects that a dead sidecar of this attempt had staged.
    for (const file of options.history.partials)
      if (file.attempt === options.facts.attempt) this.#addPartial(file);
    const segmented = new PackedMap(storedFileRow(options.facts.scope.index), options.paths);
    for (const file of options.base?.results ?? []) segmented.set(file.path, file);
    for (const { path } of options.base?.record.results ?? []) segmented.delete(path);
    for (const [path, file] of this.#results) {
      if (segmented.get(path)?.push !== file.push) this.#inline.set(path, file);
    }
  }

  get results(): PathMap<StoredFile> {
    return this.#results;
  }

  /** When the last record was written, or when this process began (performance.now()). */
  get writtenMs(): number {
    return this.#writtenMs;
  }

  /** {@link LedgerOptions.takeovers} */
  get takeovers(): readonly Takeover[] {
    return this.#options.takeovers;
  }

  /** Newest first. */
  get generations(): readonly Generation[] {
    return this.#generations;
  }

  /** Highest n of the path's `.~n~` objects, 0 if there is none. */
  keptOf(path: string): number {
    return this.#kept.get(path) ?? 0;
  }

  noteKept(path: string, n: number): void {
    this.#kept.set(path, n);
  }

  /**
   * Content that the task has closed now. Returns the results that cannot stand beside it, as their paths are above or
   * below its own: it replaces them.
   */
  noteResult(file: StoredFile): readonly StoredFile[] {
    const clashing = this.#clashing(file.path);
    const replaced = clashing.flatMap((path) => this.#results.get(path) ?? []);
    // The record goes on naming them: a reader tells by the order that they are older.
    for (const path of clashing) this.#results.delete(path);
    for (const dir of ancestorsOf(file.path)) this.#directories.set(dir, true);
    this.#results.set(file.path, file);
    this.#inline.delete(file.path);
    this.#inline.set(file.path, file);
    this.#unrecorded.set(idOf(file), file);
    return replaced;
  }

  /** An object that was stored before, and that no record names. Newer results that cannot stand beside it stay. */
  noteFound(file: StoredFile): void {
    if (!this.clashes(file.path)) this.noteResult(file);
  }

  /** True if a result has a path above or below this one. */
  clashes(path: RelPath): boolean {
    return this.#clashing(path).length > 0;
  }

  #clashing(path: RelPath): readonly RelPath[] {
    const clashing = ancestorsOf(path).filter((dir) => this.#results.has(dir));
    if (this.#directories.has(path))
      for (const one of this.#results.keys()) if (one.startsWith(`${path}/`)) clashing.push(one);
    return clashing;
  }

  /** An object beside the result: the kernel may have closed the file for a dying process. */
  notePartial(file: StoredFile): void {
    this.#addPartial(file);
    this.#unrecorded.set(idOf(file), file);
    if (this.#results.get(file.path)?.push !== file.push) return;
    this.#results.delete(file.path);
    this.#inline.delete(file.path);
  }

  /** Partial results of this attempt, oldest first. */
  partialsOf(path: string): readonly StoredFile[] {
    return this.#partials.get(path) ?? [];
  }

  /** At the end of the task nothing was found against it. */
  clearPartial({ path, push }: StoredFile): void {
    const cleared = this.partialsOf(path).map((one) =>
      one.push === push ? { ...one, suspect: undefined } : one,
    );
    this.#partials.set(path, cleared);
  }

  /**
   * The result is stored under its own name, with the content of `until` or newer: the next record names no older
   * partials.
   */
  dropPartials(path: string, until?: StoredFile): readonly StoredFile[] {
    const all = this.#partials.get(path) ?? [];
    const at = until === undefined ? all.length : all.findIndex(({ push }) => push === until.push) + 1;
    if (at === all.length) this.#partials.delete(path);
    else this.#partials.set(path, all.slice(at));
    for (const file of all.slice(0, at)) this.#unrecorded.delete(idOf(file));
    return all.slice(0, at);
  }

  /** True if a record names this very object. */
  isRecorded(file: Pick<StoredFile, 'push' | 'key'>): boolean {
    return !this.#unrecorded.has(idOf(file));
  }

  /** Pushes that no record names yet. */
  get unrecordedCount(): number {
    return this.#unrecorded.size;
  }

  /** The newest stored content of each path that no record names yet. */
  unrecorded(): readonly StoredFile[] {
    return [...this.#unrecorded.values()].filter((file) => {
      const newest = this.#results.get(file.path);
      return newest !== undefined && idOf(newest) === idOf(file);
    });
  }

  setGenerations(generations: readonly Generation[]): void {
    this.#generations = generations;
  }

  /** From now on every write is aborted when `signal` aborts, even one without a signal of its own. */
  until(signal: AbortSignal): void {
    this.#limit = signal;
  }

  /**
   * Writes one record with everything known now. It checks the fence first; writes never overlap. Writes after a last
   * record are rejected: readers use the newest.
   */
  write(kind: RecordKind, extra: RecordExtra = {}, signal?: AbortSignal): Promise<void> {
    return this.#inTurn(() =>
      whileLinked([signal, this.#limit], (either) => this.#write(kind, extra, either)),
    );
  }

  async #write(kind: RecordKind, extra: RecordExtra, signal?: AbortSignal): Promise<void> {
    const { fence, facts, newId, takeovers } = this.#options;
    if (this.#isOver && !isLast(kind)) throw new Error(`the last record is written: no ${kind} after it`);
    this.#isOver ||= isLast(kind);
    // No later record could correct a mistake in the last one.
    await (isLast(kind) ? fence.passAnew(signal) : fence.pass(signal));
    await this.#moveToSegments(signal);
    // Copied now, cleared only when the record is stored: a push that ends in between stays unrecorded.
    const named = [...this.#unrecorded.keys()];
    const push = newId();
    this.#generations = this.#generations.map((one) => this.#withoutNamed(one));
    const record: CaptureRecord = {
      ...runFields(facts),
      kind,
      push,
      seq: this.#seq,
      at: (this.#options.now?.() ?? new Date()).toISOString(),
      restored: this.restored,
      takeovers: takeovers.length === 0 ? undefined : [...takeovers],
      segments: [...this.#segments],
      results: [...this.#inline.values()],
      partials: [...this.#partials.values()].flat().slice(isLast(kind) ? 0 : -MOST_PARTIALS),
      kept: Object.fromEntries(this.#kept),
      generations: [...this.#generations],
      pruned: this.pruned,
      dropped: this.#dropped(),
      left: [...inRecord(extra.left ?? [])],
      stop: this.stop,
      end: extra.end,
      resources: this.used?.(),
    };
    const text = this.#readableText(record);
    const name = kind === 'failed' ? `failed-${extra.end?.status ?? 1}` : kind;
    await this.#create(recordKey(facts.scope, facts.attempt, this.#seq, name), text, push, signal);
    this.#writtenMs = performance.now();
    for (const one of named) this.#unrecorded.delete(one);
    await this.#prune(signal);
  }

  /** What no capture reads is not written. The names of partial results and of missing files can be cut short. */
  #readableText(record: CaptureRecord): string {
    const { partials, left, generations } = record;
    const whole = textWithSum(record);
    if (whyUnreadable(whole) === undefined) return whole;
    let why: string | undefined;
    for (let most = MOST_NAMES; most > 0; most = Math.floor(most / 10)) {
      const newest = partials.slice(Math.max(0, partials.length - most));
      const cut = textWithSum({ ...record, partials: newest, left: left.slice(0, most) });
      why = whyUnreadable(cut);
      if (why === undefined) return cut;
    }
    const files = generations[0]?.members.length ?? 0;
    throw new CaptureError(
      EXIT.notStored,
      `no capture could read the next record: ${why}; the newest checkpoint set has ${plural(files, 'file')}`,
      { hint: 'if it is too large: fewer files in a set, by --newest or as one archive of them' },
    );
  }

  async #create(key: string, text: string, push: string, signal?: AbortSignal): Promise<void> {
    const bytes = Buffer.from(text);
    // Increment first: if the answer is lost, the record may exist, and the next try needs another key.
    this.#seq += 1;
    reached('record.before-put');
    const outcome = await this.#options.store.put(key, bytes, {
      meta: { push },
      precondition: ABSENT,
      signal,
    });
    reached('record.after-put');
    if (outcome.kind === 'exists')
      throw new Error(`record ${key} exists already: another process writes as this attempt`);
    this.#written.push(key);
  }

  async #moveToSegments(signal?: AbortSignal): Promise<void> {
    while (this.#inline.size > RESULTS_PER_SEGMENT) {
      const entries = [...this.#inline.values()].slice(0, RESULTS_PER_SEGMENT);
      const { scope, attempt, sealed } = this.#options.facts;
      const key = recordKey(scope, attempt, this.#seq, 'list');
      const text = textWithSum({ format: 1, sealed, results: entries });
      await this.#create(key, text, this.#options.newId(), signal);
      this.#segments.push(key);
      for (const file of entries) {
        if (this.#inline.get(file.path) === file) this.#inline.delete(file.path);
      }
    }
  }

  #withoutNamed(generation: Generation): Generation {
    const { behind = [], attempt } = generation;
    if (behind.length === 0 || attempt !== this.#options.facts.attempt) return generation;
    const left = behind.filter((one) => !this.isNamed(one));
    return left.length === behind.length ? generation : { ...generation, behind: left };
  }

  /** Sets that this process has deleted; records of earlier attempts and of dead sidecars still name them. */
  #dropped(): string[] | undefined {
    const { history } = this.#options;
    const kept = new Set(this.#generations.map(generationName));
    const gone = history.generations.map(generationName).filter((name) => !kept.has(name));
    const dropped = [...history.dropped, ...gone];
    return dropped.length === 0 ? undefined : dropped;
  }

  #addPartial(file: StoredFile): void {
    this.#partials.set(file.path, [...(this.#partials.get(file.path) ?? []), file]);
  }

  async #prune(signal?: AbortSignal): Promise<void> {
    const old = prunableRecords(this.#written);
    await this.#options.tidy.delete(old, signal);
    this.#written = this.#written.filter((key) => !old.includes(key));
  }
}

function idOf({ push, key }: Pick<StoredFile, 'push' | 'key'>): string {
  return `${push} ${key}`;
}

/**
 * Content that needs no push: stored results, which the ledger knows, and inputs that existed before the task started,
 * until the task closes them.
 */
export class Baselines {
  readonly #ledger: Pick<Ledger, 'results'>;
  /** Entries that override the ledger; undefined: this path has no baseline. */
  readonly #own = new Map<RelPath, Baseline | undefined>();

  constructor(ledger: Pick<Ledger, 'results'>) {
    this.#ledger = ledger;
  }

  /** `isOurs`: the task has closed the file, so what an input was no longer counts. */
  get(path: RelPath, isOurs: boolean): Baseline | undefined {
    const own = this.#own.get(path);
    const isOwn = own === undefined ? this.#own.has(path) : !isOurs;
    return isOwn ? own : this.#ledger.results.get(path);
  }

  /** The content of an input. */
  set(path: RelPath, baseline: Baseline): void {
    this.#own.set(path, baseline);
  }

  /** From now on the file is pushed, whatever its content. */
  delete(path: RelPath): void {
    this.#own.set(path, undefined);
  }

  /** From now on the ledger's entry counts. */
  stored(path: RelPath): void {
    this.#own.delete(path);
  }

  /** The baselines of inputs, for the sidecar that replaces this one. */
  *inputs(isInput: (path: RelPath) => boolean): Generator<[RelPath, Baseline]> {
    for (const [path, own] of this.#own) if (own !== undefined) yield [path, own];
    for (const path of this.#ledger.results.keys()) {
      if (this.#own.has(path) || !isInput(path)) continue;
      const stored = this.#ledger.results.get(path);
      if (stored === undefined) continue;
      const { kind, md5, size, mode } = stored;
      yield [path, { kind, md5, size, mode }];
    }
  }
}
