// What is known of one declared file in one role while the task runs, and what the watcher reports of it. Plain data,
// changed only by decide(). Events flow one way, from the kernel's bytes to decide().
import type { RelPath } from '../path.ts';
import type { Evidence } from './evidence.ts';

/** A result has one key whose object is replaced; a checkpoint becomes a new object each time. */
export type FileRole = 'result' | 'checkpoint';

/** Content that the store has acknowledged. */
export interface Durable {
  readonly fingerprint: Fingerprint;
  readonly md5: string;
  readonly size: number;
}

export interface Close {
  readonly how: ClosedHow;
  readonly atMs: number;
  readonly evidence: Evidence;
  /** Its number among all closes of declared files. Many closes share one `atMs`, because they are read together. */
  readonly seq: number;
  /**
   * Of a file's first close: the number of the last close before its name appeared, 0 if that is unknown or the name is
   * older than the task. Undefined for later closes: nobody knows when the file was opened again.
   */
  readonly since?: number | undefined;
}

export interface FileState {
  readonly path: RelPath;
  readonly role: FileRole;
  /** Set if the file was there before the task started, and nobody has closed it since. */
  readonly inherited: Fingerprint | undefined;
  /** Closed content exists that is not known to be durable. */
  readonly pending: boolean;
  /** A push is in progress. All closes during it lead to one more push. */
  readonly pushing: boolean;
  readonly closedAgain: boolean;
  /** What a scan saw during the push. The close that made it may be known already, or lost. */
  readonly seen: Fingerprint | undefined;
  /** A process has it open for writing. The next close, or the final scan, looks at it again. */
  readonly blocked: boolean;
  /** No push before this instant (pacing or retry). */
  readonly notBeforeMs: number;
  readonly tornTries: number;
  /** It was torn once. From now on it is copied to the spool first, so it gets stored even over a slow link. */
  readonly spoolFirst: boolean;
  readonly failedTries: number;
  readonly lastClose: Close | undefined;
  /** Closes since the task started. */
  readonly closes: number;
  /** How many of these the push in progress covers: those before it began to read. */
  readonly readingCloses: number;
  /** How many of these are over: their content, or newer content, is durable, or the task has withdrawn it. */
  readonly durableCloses: number;
  readonly durable: Durable | undefined;
  /** Why it is not stored, once that is final for this content. */
  readonly left: string | undefined;
}

/** The state of a file before its first event. */
export function newFileState(path: RelPath, role: FileRole): FileState {
  return {
    path,
    role,
    inherited: undefined,
    pending: false,
    pushing: false,
    closedAgain: false,
    seen: undefined,
    blocked: false,
    notBeforeMs: 0,
    tornTries: 0,
    spoolFirst: false,
    failedTries: 0,
    lastClose: undefined,
    closes: 0,
    readingCloses: 0,
    durableCloses: 0,
    durable: undefined,
    left: undefined,
  };
}

/**
 * fstat(2) of a regular file: tells one state of the file from another without reading it. Times are ns since the
 * epoch as decimal strings, exact and safe in JSON. Nanoseconds matter: two writes in one millisecond make two states.
 */
export interface Fingerprint {
  readonly dev: string;
  readonly ino: string;
  readonly size: number;
  readonly mtimeNs: string;
  readonly ctimeNs: string;
}

/** Every time that a file can have, in ns: 64 bits of seconds and nine digits (statx(2)). */
export const TIME_NS = /^-?\d{1,28}$/;

/** A fingerprint, and what else a push needs to know. */
export interface FileFacts extends Fingerprint {
  /** Permission bits only. */
  readonly mode: number;
  readonly links: number;
}

export function sameFingerprint(a: Fingerprint, b: Fingerprint): boolean {
  return sameContentFingerprint(a, b) && a.ctimeNs === b.ctimeNs;
}

/** Ignores ctime, which a rename or a chmod changes although the bytes stay. */
export function sameContentFingerprint(a: Fingerprint, b: Fingerprint): boolean {
  return a.dev === b.dev && a.ino === b.ino && a.size === b.size && a.mtimeNs === b.mtimeNs;
}

/**
 * How a file was closed. `close`: IN_CLOSE_WRITE. `rename`: IN_MOVED_TO of the file. `dir-rename`: IN_MOVED_TO of a
 * directory above it, so all its files appeared at once. `link`: a new hard or symbolic link, or a linked O_TMPFILE
 * file. `scan`: a scan found it. `quiet`: the portable fallback saw no change for a while. None of these proves that
 * no writer is left: the snapshot does.
 */
export type ClosedHow = 'close' | 'rename' | 'link' | 'scan' | 'quiet' | 'dir-rename';

/** A dying process renames and links nothing: a living process put the file there. */
export function isPlaced(how: ClosedHow): boolean {
  return how === 'rename' || how === 'dir-rename' || how === 'link';
}

/** A scan finds files in directory order, not in the order of their closes. */
export function isInOrder(how: ClosedHow): boolean {
  return how === 'close' || how === 'rename' || how === 'link';
}

export interface ClosedEvent {
  readonly path: RelPath;
  readonly how: ClosedHow;
  /** When capture read the event, ms since the epoch. */
  readonly atMs: number;
  /** Whether a dying process may have made the close. */
  readonly evidence: Evidence;
  /** {@link Close.seq} */
  readonly seq: number;
  /** Of a new name: the number of the last close before it appeared. */
  readonly since?: number | undefined;
}

/** Where to look. Compiled from the manifest. */
export interface Interest {
  /** True for a path that has a role. */
  wants(path: RelPath): boolean;
  /** True for a directory ('' is the work directory) that can contain a declared file at any depth. */
  canHold(dir: RelPath): boolean;
}
