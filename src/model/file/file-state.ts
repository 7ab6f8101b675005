// What is known of one declared file in one role while the task runs, and what the watcher reports of it: plain data,
// changed only by decide(). Events flow one way, from the kernel's bytes to decide().
import type { RelPath } from '../path.ts';
import type { Evidence } from './evidence.ts';

/** A result goes to one key that is replaced; a checkpoint becomes a new object each time. */
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
  /** Its place among all closes of declared files: `atMs` is that of many, as they are read together. */
  readonly seq: number;
}

export interface FileState {
  readonly path: RelPath;
  readonly role: FileRole;
  /** Set if it was there before the task started and was not closed since. */
  readonly inherited: Fingerprint | undefined;
  /** There is content that was closed and is not known to be durable. */
  readonly pending: boolean;
  /** A push is under way; all closes that arrive meanwhile lead to one more push. */
  readonly pushing: boolean;
  readonly closedAgain: boolean;
  /** What a scan saw while the push was under way: its close may be one that we heard of, or one that was lost. */
  readonly seen: Fingerprint | undefined;
  /** Somebody has it open for writing: it is looked at again at its close, or by the final scan. */
  readonly blocked: boolean;
  /** No push before this instant: pacing or retry. */
  readonly notBeforeMs: number;
  readonly tornTries: number;
  /** It was torn once: from now on it is copied to the spool first, so that it gets stored even over a slow link. */
  readonly spoolFirst: boolean;
  readonly failedTries: number;
  readonly lastClose: Close | undefined;
  /** Closes since the task started. */
  readonly closes: number;
  /** How many of these the push under way covers: those that came before it began to read. */
  readonly readingCloses: number;
  /** How many of these are over: their content, or newer content, is durable, or the task has withdrawn it. */
  readonly durableCloses: number;
  readonly durable: Durable | undefined;
  /** Why it is not stored, once that is final for this content. */
  readonly left: string | undefined;
}

/** A file of which nothing has been reported yet. */
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
 * fstat(2) of a regular file: tells one state of it from another without reading it. Times are ns since the epoch as
 * decimal strings, exact and JSON-safe; the nanoseconds matter, as two writes in one millisecond make two states.
 */
export interface Fingerprint {
  readonly dev: string;
  readonly ino: string;
  readonly size: number;
  readonly mtimeNs: string;
  readonly ctimeNs: string;
}

/** A fingerprint, and what else a push needs to know. */
export interface FileFacts extends Fingerprint {
  /** Permission bits only. */
  readonly mode: number;
  readonly links: number;
}

export function sameFingerprint(a: Fingerprint, b: Fingerprint): boolean {
  return sameContentFingerprint(a, b) && a.ctimeNs === b.ctimeNs;
}

/** Without ctime, which a rename or a chmod changes although the bytes stay. */
export function sameContentFingerprint(a: Fingerprint, b: Fingerprint): boolean {
  return a.dev === b.dev && a.ino === b.ino && a.size === b.size && a.mtimeNs === b.mtimeNs;
}

/**
 * How a file came to be closed. `close`: IN_CLOSE_WRITE. `rename`: IN_MOVED_TO of the file; `dir-rename`: of a
 * directory above it, so that everything in it came at once. `link`: a new hard or symbolic link, or an O_TMPFILE
 * file linked in. `scan`: found by a scan. `quiet`: the portable fallback saw no change for a while. None proves that
 * no writer is left: the snapshot does.
 */
export type ClosedHow = 'close' | 'rename' | 'link' | 'scan' | 'quiet' | 'dir-rename';

/** A dying process renames and links nothing: a process that lived on put the file there. */
export function isPlaced(how: ClosedHow): boolean {
  return how === 'rename' || how === 'dir-rename' || how === 'link';
}

/** A walk finds files in the order of the directory, not in that of their closes. */
export function isInOrder(how: ClosedHow): boolean {
  return how === 'close' || how === 'rename' || how === 'link';
}

export interface ClosedEvent {
  readonly path: RelPath;
  readonly how: ClosedHow;
  /** When we read the event, ms since the epoch. */
  readonly atMs: number;
  /** Whether a death may have made it. */
  readonly evidence: Evidence;
}

/** Where to look: compiled from the manifest. */
export interface Interest {
  /** True for a path that has a role. */
  wants(path: RelPath): boolean;
  /** True for a directory ('' is the work directory) in which, at any depth, a declared file can stand. */
  canHold(dir: RelPath): boolean;
}
