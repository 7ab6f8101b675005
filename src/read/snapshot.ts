// One state of one file, held open: opened, found without a writer, and afterwards proven not to have moved.
// Runs in a worker. Never holds a lease while it reads: a writer that comes would have to wait for us.
import fs from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { errnoOf, reasonOf } from '../model/errors.ts';
import { type FileFacts, type Fingerprint, sameFingerprint } from '../model/file/file-state.ts';
import { type RelPath, showPath } from '../model/path.ts';
import type { WorkDir } from '../native/beneath.ts';
import { factsOf, openBeneath, writerState, type WriterState } from '../native/files.ts';
import { type Obstacle, SnapshotMoved } from './reading.ts';

/** Before Linux 6.13 two writes within one clock tick (up to 10 ms) have one mtime: git's "racy" rule. */
const RACY_MS = 20;
/** Where leases do not work, this long without a change stands for "no writer". */
const UNKNOWN_QUIET_MS = 1000;
/** Between two looks at the messages: a reading of hours must be able to hear that it is not wanted. */
const CHUNKS_A_TURN = 16;

export interface Snapshot {
  readonly kind: 'open';
  readonly path: RelPath;
  /** Owned by whoever opened the snapshot. */
  readonly fd: number;
  readonly facts: FileFacts;
}

export interface SnapshotRules {
  /** Any other state is `moved`. */
  readonly expected?: Fingerprint;
  /** The state of an earlier `fresh` answer, `waitMs` ago. */
  readonly seen?: Fingerprint;
  /** os.release() */
  readonly kernelRelease: string;
  readonly nowMs: number;
}

export type Opened =
  | Snapshot
  | Obstacle
  | { readonly kind: 'fresh'; readonly waitMs: number; readonly facts: FileFacts };

/** Opens the file beneath `root`, or says why there is nothing to read now. Throws what is neither (EIO, EMFILE). */
export function openSnapshot(root: WorkDir, path: RelPath, rules: SnapshotRules): Opened {
  let fd: number;
  try {
    fd = openBeneath(root, path);
  } catch (error) {
    return obstacleOf(error, path);
  }
  let opened: Opened | undefined;
  try {
    opened = inspect(fd, path, rules);
    return opened;
  } finally {
    if (opened?.kind !== 'open') fs.closeSync(fd);
  }
}

function inspect(fd: number, path: RelPath, rules: SnapshotRules): Opened {
  const state = writerState(fd);
  if (state === 'writer') return { kind: 'writer' };
  const facts = factsOf(fd);
  if (rules.expected !== undefined && !sameFingerprint(facts, rules.expected)) return { kind: 'moved' };
  const quietMs = quietMsFor(state, rules.kernelRelease);
  const ageMs = rules.nowMs - Number(BigInt(facts.mtimeNs) / 1_000_000n);
  const isQuiet = ageMs >= quietMs || (rules.seen !== undefined && sameFingerprint(facts, rules.seen));
  if (isQuiet) return { kind: 'open', path, fd, facts };
  if (rules.seen !== undefined) return { kind: 'moved' };
  // A clock ahead of ours (a file server's) must not make us wait for it.
  return { kind: 'fresh', waitMs: Math.min(quietMs, quietMs - ageMs), facts };
}

/** How old the last change must be for a later one to be visible, ms. */
export function quietMsFor(state: WriterState, kernelRelease: string): number {
  if (state === 'unknown') return UNKNOWN_QUIET_MS;
  const [major = 0, minor = 0] = kernelRelease.split('.').map((part) => Number.parseInt(part, 10));
  return major > 6 || (major === 6 && minor >= 13) ? 0 : RACY_MS;
}

/** Why a file beneath the root could not be opened; throws what is no state of it. */
export function obstacleOf(error: unknown, path: RelPath): Obstacle {
  switch (errnoOf(error)) {
    case 'ENOENT':
    case 'ENOTDIR':
      return { kind: 'gone' };
    // A rename under way above the file (openat2(2)), or a file server that lost it: to be tried again.
    case 'EAGAIN':
    case 'ESTALE':
      return { kind: 'moved' };
    case 'ELOOP':
    case 'EXDEV':
      return { kind: 'refused', why: 'it is a symbolic link, or stands behind one' };
    case 'EINVAL':
    case 'ENXIO':
      return { kind: 'refused', why: 'it is not a regular file' };
    case 'EACCES':
    case 'EPERM':
      return { kind: 'refused', why: 'permission denied' };
    default:
      throw new Error(`cannot open ${showPath(path)}: ${reasonOf(error)}`, { cause: error });
  }
}

/**
 * The file's bytes from the start, exactly as many as the snapshot's size. Throws SnapshotMoved as soon as the
 * file has another state: over a slow link the rest would be sent for minutes, and for nothing. What no stat
 * shows yet is the final proof's to find.
 */
export async function* chunksOf(
  snapshot: Snapshot,
  buffer: Uint8Array,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, undefined> {
  const { fd, path, facts } = snapshot;
  for await (const chunk of chunksBetween(snapshot, { first: 0, end: facts.size }, buffer, signal)) {
    if (!sameFingerprint(factsOf(fd), facts)) throw new SnapshotMoved(path, false);
    yield chunk;
  }
}

/**
 * Bytes of an open file, in chunks that are valid until the next is asked for; throws SnapshotMoved when there
 * are fewer.
 */
export async function* chunksBetween(
  { fd, path }: Pick<Snapshot, 'fd' | 'path'>,
  { first, end }: { readonly first: number; readonly end: number },
  buffer: Uint8Array,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, undefined> {
  let at = first;
  for (let chunk = 1; at < end; chunk += 1) {
    const lengthBytes = readAt({ fd, path }, buffer.subarray(0, end - at), at);
    at += lengthBytes;
    yield buffer.subarray(0, lengthBytes);
    if (chunk % CHUNKS_A_TURN === 0) await nextTurn();
    signal.throwIfAborted();
  }
}

/** How many bytes were read into `target`: at least one. Throws SnapshotMoved where the file has none. */
export function readAt({ fd, path }: Pick<Snapshot, 'fd' | 'path'>, target: Uint8Array, at: number): number {
  let lengthBytes: number;
  try {
    lengthBytes = fs.readSync(fd, target, 0, target.length, at);
  } catch (error) {
    throw new Error(`cannot read ${showPath(path)} at byte ${at}: ${reasonOf(error)}`, { cause: error });
  }
  if (lengthBytes === 0) throw new SnapshotMoved(path, false);
  return lengthBytes;
}

/** What happened to the file since it was opened; undefined: nothing, and what was read is of one moment. */
export function movedSince({ fd, facts }: Snapshot): 'writer' | 'moved' | undefined {
  if (!sameFingerprint(factsOf(fd), facts)) return writerState(fd) === 'writer' ? 'writer' : 'moved';
  return writerState(fd) === 'writer' ? 'writer' : undefined;
}
