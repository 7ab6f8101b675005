// What is known of one declared file in one role while the task runs: plain data, changed only by decide().
import type { RelPath } from '../path.ts';
import type { ClosedHow } from './events.ts';
import type { Evidence } from './evidence.ts';
import type { Fingerprint } from './fingerprint.ts';

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
}

export interface FileState {
  readonly path: RelPath;
  readonly role: FileRole;
  /** Set if it was there before the task started and was not closed since. */
  readonly inherited: Fingerprint | undefined;
  /** There is content that was closed and is not known to be durable. */
  readonly pending: boolean;
  /** When the oldest close that waits for a push came. */
  readonly pendingSinceMs: number;
  /** A push is under way; all closes that arrive meanwhile lead to one more push. */
  readonly pushing: boolean;
  readonly closedAgain: boolean;
  /** Somebody has it open for writing: it is looked at again at its close, or by the final scan. */
  readonly blocked: boolean;
  /** No push before this instant: pacing, hold or retry. */
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
  /** A push would replace an object that is stored under the result's key. */
  readonly replaces: boolean;
  readonly durable: Durable | undefined;
  /** Why it is not stored, once that is final for this content. */
  readonly left: string | undefined;
}

/** A file of which nothing has been reported yet. `replaces`: something is stored under the result's key. */
export function newFileState(path: RelPath, role: FileRole, replaces: boolean): FileState {
  return {
    path,
    role,
    inherited: undefined,
    pending: false,
    pendingSinceMs: 0,
    pushing: false,
    closedAgain: false,
    blocked: false,
    notBeforeMs: 0,
    tornTries: 0,
    spoolFirst: false,
    failedTries: 0,
    lastClose: undefined,
    closes: 0,
    readingCloses: 0,
    durableCloses: 0,
    replaces,
    durable: undefined,
    left: undefined,
  };
}
