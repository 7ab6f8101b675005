// The current file states of a run, one row each: a task may write hundreds of thousands of files, and write each of
// them again. Keeps counts of what is often asked about all files, and knows which files a flush waits for.
import { isDone, isOver } from '../../model/file/decide.ts';
import type { FileRole, FileState } from '../../model/file/file-state.ts';
import { provenFromMs } from '../../model/file/suspect.ts';
import { fileStateRow } from '../../model/packed/file-state-row.ts';
import { PackedMap, Paths } from '../../model/packed/packed-map.ts';
import type { RelPath } from '../../model/path.ts';
import { newDeferred } from '../../model/waiting.ts';

/** Stands for one file in one role. A number, because there may be very many. */
export type FileKey = number;

/** By role, the files that were closed last are kept by name: any of them may have been opened again since. */
const MOST_RECENT = 200;
/**
 * The names that disappeared last are still looked at, up to this many: a program may remove a file before it writes
 * it again, and no cut may be taken without that file then.
 */
const MOST_GONE = 200;
const ROLES: readonly FileRole[] = ['result', 'checkpoint'];

export class FileStates {
  readonly #paths: Paths;
  readonly #rows: Readonly<Record<FileRole, PackedMap<FileState>>>;
  readonly #blocked = new Set<FileKey>();
  readonly #open = new Set<FileKey>();
  readonly #unproven = new Set<FileKey>();
  readonly #recent: Readonly<Record<FileRole, Set<RelPath>>> = { result: new Set(), checkpoint: new Set() };
  /** Checkpoint files that may exist. */
  readonly existing: ExistingPaths;

  /** `paths`: shared with all other tables that are keyed by path. */
  constructor(paths = new Paths()) {
    this.#paths = paths;
    this.existing = new ExistingPaths(paths);
    this.#rows = {
      result: new PackedMap(fileStateRow('result'), paths),
      checkpoint: new PackedMap(fileStateRow('checkpoint'), paths),
    };
  }

  /** The number of files that a drain still waits for. */
  get open(): number {
    return this.#open.size;
  }

  /** The number of file states. */
  get count(): number {
    return this.#rows.result.size + this.#rows.checkpoint.size;
  }

  keyOf({ path, role }: Pick<FileState, 'path' | 'role'>): FileKey {
    return this.#paths.idOf(path) * ROLES.length + ROLES.indexOf(role);
  }

  at(key: FileKey): FileState | undefined {
    const role = ROLES[key % ROLES.length];
    return role === undefined ? undefined : this.#rows[role].at(Math.floor(key / ROLES.length));
  }

  get(path: RelPath, role: FileRole): FileState | undefined {
    return this.#rows[role].get(path);
  }

  set(fileState: FileState, before: FileState): void {
    const key = this.keyOf(fileState);
    this.#rows[fileState.role].set(fileState.path, fileState);
    if (isOpen(fileState)) this.#open.add(key);
    else this.#open.delete(key);
    if (fileState.blocked) this.#blocked.add(key);
    else this.#blocked.delete(key);
    if (provenFromMs(fileState.lastClose, undefined) > 0) this.#unproven.add(key);
    else this.#unproven.delete(key);
    if (fileState.closes !== before.closes || fileState.inherited !== before.inherited) this.#came(fileState);
  }

  /** The files that were closed or inherited last, newest last: at most 200, because a task may close 200,000. */
  recent(role: FileRole): Iterable<RelPath> {
    return this.#recent[role];
  }

  /** Lazily, one by one: file states may change meanwhile. */
  of(role: FileRole): Iterable<FileState> {
    return this.#rows[role].values();
  }

  paths(role: FileRole): Iterable<RelPath> {
    return this.#rows[role].keys();
  }

  *all(): Generator<FileState> {
    for (const role of ROLES) yield* this.of(role);
  }

  /** Files that the store has refused. */
  *refused(): Generator<FileState> {
    for (const fileState of this.outstanding())
      if (fileState.pending && fileState.failedTries > 0) yield fileState;
  }

  /** Files whose content is not stored yet, or that somebody has open for writing. */
  *outstanding(role?: FileRole): Generator<FileState> {
    for (const keys of [this.#blocked, this.#open])
      for (const key of keys) {
        const fileState = this.at(key);
        if (fileState !== undefined && (role ?? fileState.role) === fileState.role) yield fileState;
      }
  }

  /** Results that somebody has open for writing. */
  *blockedResults(): Generator<RelPath> {
    for (const key of this.#blocked) {
      const fileState = this.at(key);
      if (fileState?.role === 'result') yield fileState.path;
    }
  }

  /** Files whose last close the kernel may have made for a dying process, however long ago it was. */
  *unproven(): Generator<FileState> {
    for (const key of this.#unproven) {
      const fileState = this.at(key);
      if (fileState !== undefined) yield fileState;
    }
  }

  /** By key, the number of closes of each file whose content is not durable yet. */
  behind(): ReadonlyMap<FileKey, number> {
    const behind = new Map<FileKey, number>();
    for (const fileState of this.all())
      if (fileState.durableCloses < fileState.closes) behind.set(this.keyOf(fileState), fileState.closes);
    return behind;
  }

  /** The file was closed, or existed before the task. */
  #came({ path, role }: FileState): void {
    const recent = this.#recent[role];
    recent.delete(path);
    recent.add(path);
    const [oldest] = recent;
    if (recent.size > MOST_RECENT && oldest !== undefined) recent.delete(oldest);
  }
}

/** True if a drain has to wait for the file. */
export function isOpen(fileState: FileState): boolean {
  return !isDone(fileState) && !fileState.blocked;
}

/**
 * Which of the checkpoint files that ever existed may still be in the work directory. A task may write 100,000 names,
 * each a new one, and remove the older ones: a cut looks only at those that exist.
 */
export class ExistingPaths {
  readonly #paths: Paths;
  readonly #there = new Set<number>();
  /** In the order in which they went, the latest last. */
  readonly #gone = new Set<number>();

  constructor(paths: Paths) {
    this.#paths = paths;
  }

  /** The file was closed, or existed before the task. */
  came(path: RelPath): void {
    const id = this.#paths.idOf(path);
    this.#gone.delete(id);
    this.#there.add(id);
  }

  /** True if somebody has found the file gone, and nobody has closed it since. */
  isGone(path: RelPath): boolean {
    return this.#gone.has(this.#paths.idOf(path));
  }

  /** In the order in which the files first appeared. */
  paths(): readonly RelPath[] {
    return [...this.#there, ...this.#gone].toSorted((a, b) => a - b).map((id) => this.#paths.pathOf(id));
  }

  /** Somebody has looked for the file, and found it or not. */
  looked(path: RelPath, isThere: boolean): void {
    if (isThere) return this.came(path);
    const id = this.#paths.idOf(path);
    if (!this.#there.delete(id)) return;
    this.#gone.add(id);
    const [oldest] = this.#gone;
    if (this.#gone.size > MOST_GONE && oldest !== undefined) this.#gone.delete(oldest);
  }
}

/** The content of one moment. One flush waits for it, or several that asked at the same moment. */
export interface Need {
  /** Resolves to true once none of the files is waited for, durable or not; to false when `signal` aborts. */
  met(signal: AbortSignal): Promise<boolean>;
  /** The files whose needed content is not durable, in their current state. */
  unmet(): readonly FileState[];
  /** Ends the wait: no file is hurried for it any more. */
  close(): void;
}

interface Wait {
  /** By key, the number of closes whose content is needed. */
  readonly open: Map<FileKey, number>;
  readonly done: () => void;
}

/**
 * What flushes wait for: the content that declared files had at one moment. Says which files are pushed without pacing,
 * and resolves each wait once its last file is settled. A task that keeps writing cannot prolong the wait.
 */
export class OpenNeeds {
  readonly #fileStates: FileStates;
  readonly #waits = new Set<Wait>();

  constructor(fileStates: FileStates) {
    this.#fileStates = fileStates;
  }

  /** True while a flush waits for this file. */
  has(key: FileKey): boolean {
    for (const { open } of this.#waits) if (open.has(key)) return true;
    return false;
  }

  /** Call it after each change of a file state. */
  changed(key: FileKey, fileState: FileState): void {
    for (const wait of this.#waits) {
      const closes = wait.open.get(key);
      if (closes === undefined || !isOver(fileState, closes)) continue;
      wait.open.delete(key);
      if (wait.open.size === 0) wait.done();
    }
  }

  /** `wanted`: by key, the number of closes. */
  need(wanted: ReadonlyMap<FileKey, number>): Need {
    const open = new Map<FileKey, number>();
    for (const [key, closes] of wanted) {
      const fileState = this.#fileStates.at(key);
      if (fileState !== undefined && !isOver(fileState, closes)) open.set(key, closes);
    }
    const all = newDeferred<void>();
    const wait: Wait = { open, done: all.resolve };
    this.#waits.add(wait);
    return {
      met: async (signal) => {
        if (open.size === 0 || signal.aborted) return open.size === 0;
        const end = newDeferred<void>();
        const aborted = (): void => end.resolve();
        signal.addEventListener('abort', aborted, { once: true });
        await Promise.race([all.promise, end.promise]);
        signal.removeEventListener('abort', aborted);
        return open.size === 0;
      },
      unmet: () =>
        [...wanted].flatMap(([key, closes]) => {
          const fileState = this.#fileStates.at(key);
          return fileState === undefined || fileState.durableCloses >= closes ? [] : [fileState];
        }),
      close: () => this.#waits.delete(wait),
    };
  }
}
