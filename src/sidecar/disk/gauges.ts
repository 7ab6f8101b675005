// What a run reports without being asked: its progress, at most once a minute. Knows only the files that it is called
// for, and changes nothing.
import { newestGeneration } from '../../model/checkpoint/history.ts';
import { committedCount } from '../../model/checkpoint/takeovers.ts';
import { isOver } from '../../model/file/decide.ts';
import type { FileRole, FileState } from '../../model/file/file-state.ts';
import { writeCount } from '../../model/packed/fields.ts';
import { PackedMap, Paths, type RowCodec } from '../../model/packed/packed-map.ts';
import type { RelPath } from '../../model/path.ts';
import { formatAge, formatBytes, formatMs, plural } from '../../model/units.ts';
import { heldPath, type WorkDir } from '../../native/beneath.ts';
import { factsBeneath } from '../../native/files.ts';
import type { Results } from '../queue/results.ts';
import type { Needs } from '../run/context.ts';
import { LowSpace } from './low-space.ts';

type GaugesContext = Needs<'settings' | 'root' | 'log' | 'attempt' | 'ledger' | 'paths' | 'now'>;

const LINE_EVERY_MS = 60_000;
/** From this age on, the line names what waits. */
const NAMED_FROM_MS = 10_000;
/** Each size costs a look at the file. For more files than this, the number says enough. */
const MOST_SIZED = 1000;

/** What this attempt has stored so far, and the age of the oldest closed content that it has not stored. */
export interface SoFar {
  readonly checkpoints: number;
  readonly newestAgeMs: number;
  readonly results: number;
  readonly bytes: number;
  readonly lag: Waits | undefined;
}

/** Closed files that wait for nothing but the store. */
interface Waits {
  /** How long the oldest one has waited. */
  readonly ms: number;
  readonly files: number;
  /** The size of all of them; undefined if the sizes were not looked up. */
  readonly bytes?: number | undefined;
  /** The oldest one. */
  readonly path: string;
}

/** A change starts the only timer of the line; a task that writes nothing has none. */
export class Gauges {
  readonly #context: GaugesContext;
  readonly #results: Pick<Results, 'stored' | 'copies'>;
  readonly #lag: Lag;
  readonly #lowSpace: LowSpace;
  #checkpoints: number;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(context: GaugesContext, results: Pick<Results, 'stored' | 'copies'>) {
    const { root, settings, log, now, paths, ledger, attempt } = context;
    this.#context = context;
    this.#results = results;
    this.#lag = new Lag(now, paths);
    this.#lowSpace = new LowSpace({
      dir: heldPath(root),
      reclaim: settings.reclaim,
      log,
      held: () => ({
        storedBytes: results.copies.bytes,
        waitingBytes: aboutSizeOf(root, this.#lag.paths(), this.#lag.size),
      }),
    });
    this.#checkpoints = committedCount(newestGeneration(ledger.generations, attempt), ledger.takeovers);
  }

  /** Call it with every change of a file state, and the state before it. */
  changed(fileState: FileState, before: FileState): void {
    if (this.#lag.changed(fileState)) this.#arm();
    if (fileState.closes > before.closes || (before.pushing && !fileState.pushing)) this.#lowSpace.changed();
  }

  /** A result was stored. */
  stored(): void {
    this.#arm();
  }

  /** A set of checkpoint files was committed. */
  committed(): void {
    this.#checkpoints += 1;
    this.#arm();
  }

  /** The number of committed checkpoint sets of this attempt. */
  get checkpoints(): number {
    return this.#checkpoints;
  }

  /** The age of the oldest file that waits, and how many wait. No file is looked at. */
  get lag(): { readonly lagMs: number; readonly waitingFiles: number } {
    return { lagMs: this.#lag.oldest()?.ms ?? 0, waitingFiles: this.#lag.size };
  }

  /** What is closed and not stored. For more than 1,000 files `waitingBytes` is an estimate. */
  get waiting(): { readonly lagMs: number; readonly waitingFiles: number; readonly waitingBytes: number } {
    const { lag } = this;
    const waitingBytes = aboutSizeOf(this.#context.root, this.#lag.paths(), lag.waitingFiles);
    return { ...lag, waitingBytes };
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#lowSpace.close();
  }

  #arm(): void {
    if (!this.#isClosed) this.#timer ??= setTimeout(() => void this.#say(), LINE_EVERY_MS);
  }

  async #say(): Promise<void> {
    this.#timer = undefined;
    const soFar = await this.#soFar();
    const text = minuteLine(soFar);
    if (text === '' || this.#isClosed) return;
    const { lag, ...stored } = soFar;
    const fields = {
      event: 'summary',
      ...stored,
      lagMs: lag?.ms ?? 0,
      waiting: lag?.files ?? 0,
      ...(lag?.bytes === undefined ? {} : { waitingBytes: lag.bytes }),
    } as const;
    this.#context.log.info(text, fields);
    // Files may wait for long, and nothing may change meanwhile.
    if (lag !== undefined) this.#arm();
  }

  async #soFar(): Promise<SoFar> {
    const { ledger, attempt, now } = this.#context;
    const { files: results, bytes } = await this.#results.stored();
    const newest = ledger.generations.find((generation) => generation.attempt === attempt);
    const newestAgeMs = newest === undefined ? 0 : now() - Date.parse(newest.at);
    return { checkpoints: this.#checkpoints, newestAgeMs, results, bytes, lag: this.#waits() };
  }

  #waits(): Waits | undefined {
    const lag = this.#lag.oldest();
    if (lag === undefined || lag.ms < NAMED_FROM_MS || lag.files > MOST_SIZED) return lag;
    return { ...lag, bytes: sizeOf(this.#context.root, this.#lag.waiting()) };
  }
}

/** The limit of files whose size is looked up each time; there may be very many. */
const SIZED = 1000;

/** The bytes of `files` files, estimated from the sizes of the first ones. */
function aboutSizeOf(root: WorkDir, paths: Iterable<RelPath>, files: number): number {
  let [bytes, asked] = [0, 0];
  for (const path of paths) {
    if (asked === SIZED) break;
    asked += 1;
    bytes += factsBeneath(root, path)?.size ?? 0;
  }
  return asked === 0 ? 0 : Math.round((bytes * files) / asked);
}

/** The bytes of the files that exist. */
function sizeOf(root: WorkDir, paths: Iterable<RelPath>): number {
  let bytes = 0;
  for (const path of paths) bytes += factsBeneath(root, path)?.size ?? 0;
  return bytes;
}

/**
 * `12 checkpoints safe, newest 8 s old; 340 results stored, 2.1 GiB; behind by 300 ms`; '' if there is nothing to say.
 */
export function minuteLine({ checkpoints, newestAgeMs, results, bytes, lag }: SoFar): string {
  const said: string[] = [];
  if (checkpoints > 0) {
    said.push(`${plural(checkpoints, 'checkpoint')} safe, newest ${formatAge(newestAgeMs)} old`);
  }
  if (results > 0) said.push(`${plural(results, 'result')} stored, ${formatBytes(bytes)}`);
  if (lag !== undefined) {
    const what =
      lag.ms < NAMED_FROM_MS
        ? ''
        : `: ${plural(lag.files, 'closed file')}${sizeInWords(lag)} not stored yet, the oldest is ${lag.path}`;
    said.push(`behind by ${formatMs(lag.ms)}${what}`);
  }
  return said.join('; ');
}

function sizeInWords({ bytes }: Waits): string {
  return bytes === undefined ? '' : ` (${formatBytes(bytes)})`;
}

interface Waiting {
  readonly sinceMs: number;
  readonly durableCloses: number;
  /** While the file is open for writing again, it does not count as closed. */
  readonly blocked: boolean;
}

const BLOCKED = 12;

const waitingRow: RowCodec<Waiting> = {
  bytes: 13,
  write: ({ sinceMs, durableCloses, blocked }, row, at) => {
    row.writeDoubleLE(sinceMs, at);
    row[at + BLOCKED] = blocked ? 1 : 0;
    return writeCount(durableCloses, row, at + 8);
  },
  read: (row, at) => ({
    sinceMs: row.readDoubleLE(at),
    durableCloses: row.readUInt32LE(at + 8),
    blocked: row[at + BLOCKED] === 1,
  }),
};

/** How far capture is behind: the age of the oldest closed content that is not durable yet. */
export class Lag {
  readonly #now: () => number;
  readonly #paths: Paths;
  readonly #waiting: Readonly<Record<FileRole, PackedMap<Waiting>>>;

  constructor(now: () => number, paths = new Paths()) {
    this.#now = now;
    this.#paths = paths;
    this.#waiting = {
      result: new PackedMap(waitingRow, paths),
      checkpoint: new PackedMap(waitingRow, paths),
    };
  }

  /** The number of files in {@link paths}. */
  get size(): number {
    return this.#waiting.result.size + this.#waiting.checkpoint.size;
  }

  /** Closed files whose content is not durable, with or without a writer. */
  *paths(): Generator<RelPath> {
    yield* this.#waiting.result.keys();
    yield* this.#waiting.checkpoint.keys();
  }

  /** The files that wait for nothing but the store. */
  *waiting(): Generator<RelPath> {
    for (const waiting of Object.values(this.#waiting))
      for (const [path, { blocked }] of waiting) if (!blocked) yield path;
  }

  /** Call it with every change of a file state. True if the file's content waits for the store. */
  changed(fileState: FileState): boolean {
    const waiting = this.#waiting[fileState.role];
    if (isOver(fileState, fileState.closes)) {
      waiting.delete(fileState.path);
      return false;
    }
    const before = waiting.get(fileState.path);
    const { durableCloses, blocked } = fileState;
    // Content that was closed while the older content was being sent is younger.
    const goesOn = before !== undefined && before.durableCloses === durableCloses;
    const sinceMs = goesOn ? before.sinceMs : (fileState.lastClose?.atMs ?? this.#now());
    waiting.set(fileState.path, { sinceMs, durableCloses, blocked });
    return !blocked;
  }

  /** Covers the files that wait for nothing but the store; undefined if there is none. */
  oldest(): { readonly ms: number; readonly files: number; readonly path: RelPath } | undefined {
    let files = 0;
    let [oldestMs, oldest] = [Infinity, 0];
    for (const waiting of Object.values(this.#waiting)) {
      waiting.eachRow((row, at, id) => {
        if (row[at + BLOCKED] === 1) return;
        files += 1;
        const sinceMs = row.readDoubleLE(at);
        if (sinceMs < oldestMs) [oldestMs, oldest] = [sinceMs, id];
      });
    }
    if (files === 0) return undefined;
    return { ms: Math.max(0, this.#now() - oldestMs), files, path: this.#paths.pathOf(oldest) };
  }
}
