// One state of one file: held open, found without a writer, and afterwards proven unchanged; or copied, so that the
// file need be quiet only during the copy. Runs in a worker, or for a small file on the calling thread. It never holds
// a lease while it reads: a new writer would be blocked.
import fs from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { errnoOf, withReason } from '../model/errors.ts';
import {
  type FileFacts,
  type Fingerprint,
  sameContentFingerprint,
  sameFingerprint,
} from '../model/file/file-state.ts';
import { type RelPath, showPath } from '../model/path.ts';
import type { WorkDir } from '../native/beneath.ts';
import {
  createUnnamed,
  factsBeneath,
  factsOf,
  leftMs,
  openBeneath,
  unseenForMs,
  writerState,
} from '../native/files.ts';
import { fileSystemType } from '../native/network-files.ts';
import type { Buffers } from './buffers.ts';
import { type HeldState, SnapshotMoved, type Obstacle, type WorkerData } from './reading.ts';

/** If leases do not work, this long without a change counts as "no writer". */
const UNKNOWN_QUIET_MS = 1000;
/** Chunks between two turns of the event loop: a reading that takes hours must still see that it is cancelled. */
const CHUNKS_PER_TURN = 16;

export interface Snapshot {
  readonly kind: 'open';
  readonly path: RelPath;
  /** Owned by the caller that opened the snapshot. */
  readonly fd: number;
  readonly facts: FileFacts;
  /** See `ReadJob`. */
  readonly outlivesName?: boolean | undefined;
}

export interface SnapshotRules {
  /** Any other state is `moved`. */
  readonly expected?: Fingerprint | undefined;
  /** Opened instead of the file at the path. If its content has changed by now, the answer is `moved`. */
  readonly held?: HeldState | undefined;
  /** The state in an earlier `fresh` answer, `waitMs` ago. */
  readonly seen?: Fingerprint;
  /** The lstat of the path a moment ago. */
  readonly lstat?: fs.BigIntStats | undefined;
  /** os.release() */
  readonly kernelRelease: string;
  readonly nowMs: number;
}

export type Opened =
  | Snapshot
  | Obstacle
  | { readonly kind: 'fresh'; readonly waitMs: number; readonly facts: FileFacts };

/** Opens the file beneath `root`, or says why there is nothing to read now. Throws any other error (EIO, EMFILE). */
export function openSnapshot(root: WorkDir, path: RelPath, rules: SnapshotRules): Opened {
  let fd: number;
  try {
    fd = rules.held === undefined ? openBeneath(root, path, rules.lstat) : openAgain(rules.held);
  } catch (error) {
    return obstacleOf(error, path);
  }
  let opened: Opened | undefined;
  try {
    opened = inspect(root, path, fd, rules);
    return opened;
  } finally {
    if (opened?.kind !== 'open') fs.closeSync(fd);
  }
}

/** Each reading has its own open file description, because a lease belongs to one (fcntl(2)). */
function openAgain({ fd }: HeldState): number {
  return fs.openSync(`/proc/self/fd/${fd}`, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
}

/**
 * True if a file that is held open has not been written to. What takes its name away changes its ctime (inode(7)). While it
 * has its name, a new ctime may be that of a write after which the program has put the mtime back (utimensat(2)).
 */
export function isAsHeld(root: WorkDir, path: RelPath, now: Fingerprint, held: Fingerprint): boolean {
  if (sameFingerprint(now, held)) return true;
  return sameContentFingerprint(now, held) && factsBeneath(root, path)?.ino !== held.ino;
}

function inspect(root: WorkDir, path: RelPath, fd: number, rules: SnapshotRules): Opened {
  const state = writerState(fd);
  if (state === 'writer') return { kind: 'writer' };
  const facts = factsOf(fd);
  if (rules.expected !== undefined && !sameFingerprint(facts, rules.expected)) return { kind: 'moved' };
  if (rules.held !== undefined && !isAsHeld(root, path, facts, rules.held.facts)) return { kind: 'moved' };
  // No program can set a ctime (utimensat(2)).
  const ageMs = rules.nowMs - Number(BigInt(facts.ctimeNs) / 1_000_000n);
  const type = (): number => fileSystemType(`/proc/self/fd/${fd}`);
  const waitMs =
    state === 'unknown'
      ? leftMs(UNKNOWN_QUIET_MS, ageMs)
      : unseenForMs(facts, ageMs, rules.kernelRelease, type);
  const isQuiet = waitMs === 0 || (rules.seen !== undefined && sameFingerprint(facts, rules.seen));
  if (isQuiet) return { kind: 'open', path, fd, facts };
  return rules.seen === undefined ? { kind: 'fresh', waitMs, facts } : { kind: 'moved' };
}

/** Why a file beneath the root could not be opened; throws errors that are not a state of the file. */
export function obstacleOf(error: unknown, path: RelPath): Obstacle {
  switch (errnoOf(error)) {
    case 'ENOENT':
    case 'ENOTDIR':
      return { kind: 'gone' };
    // A concurrent rename above the file (openat2(2)), or a file server that lost it: retry.
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
      throw withReason(`cannot open ${showPath(path)}`, error);
  }
}

/**
 * The file's bytes from the start, exactly as many as the snapshot's size. Throws SnapshotMoved as soon as the file
 * has another state: over a slow link the rest would be sent for minutes, and for nothing. The final proof finds
 * changes that no stat shows yet.
 */
export async function* chunksOf(
  snapshot: Snapshot,
  buffer: Uint8Array,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, undefined> {
  const { fd, path, facts, outlivesName } = snapshot;
  // If only the name has vanished, the proof decides whether the bytes are one state.
  const isSame = outlivesName === true ? sameContentFingerprint : sameFingerprint;
  for await (const chunk of chunksBetween(snapshot, { first: 0, end: facts.size }, buffer, signal)) {
    if (!isSame(factsOf(fd), facts)) throw new SnapshotMoved(path, false);
    yield chunk;
  }
}

/**
 * Bytes of an open file, in chunks that are valid until the next is requested. Throws SnapshotMoved if there are
 * fewer.
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
    if (chunk % CHUNKS_PER_TURN === 0) await nextTurn();
    signal.throwIfAborted();
  }
}

/** How many bytes were read into `target`: at least one. Throws SnapshotMoved if the file has none there. */
export function readAt({ fd, path }: Pick<Snapshot, 'fd' | 'path'>, target: Uint8Array, at: number): number {
  let lengthBytes: number;
  try {
    lengthBytes = fs.readSync(fd, target, 0, target.length, at);
  } catch (error) {
    throw withReason(`cannot read ${showPath(path)} at byte ${at}`, error);
  }
  if (lengthBytes === 0) throw new SnapshotMoved(path, false);
  return lengthBytes;
}

/** What happened to the file since it was opened; undefined: nothing, so the bytes read are of one moment. */
export function movedSince({ fd, facts }: Snapshot): 'writer' | 'moved' | undefined {
  if (!sameFingerprint(factsOf(fd), facts)) return writerState(fd) === 'writer' ? 'writer' : 'moved';
  return writerState(fd) === 'writer' ? 'writer' : undefined;
}

/**
 * A private copy of a file's bytes. Reading and writing cost a fraction of md5 and zstd, which can then take their
 * time. A file of one part is copied into memory, any other into the spool: a file that never has a name, so nothing
 * is left behind, however capture ends.
 */
export interface Copy {
  /** The bytes from the start, as often as requested. A chunk is valid until the next is requested. */
  chunks(signal: AbortSignal): AsyncGenerator<Uint8Array, undefined>;
  close(): void;
}

/** For a file of one part. Throws SnapshotMoved if the file has become shorter. */
export function copyToMemory(snapshot: Snapshot, buffers: Buffers, chunkBytes: number): Copy {
  const { size } = snapshot.facts;
  const memory = buffers.take(size);
  for (let at = 0; at < size;) at += readAt(snapshot, memory.subarray(at, size), at);
  return {
    chunks: async function* (): AsyncGenerator<Uint8Array, undefined> {
      for (let at = 0; at < size; at += chunkBytes)
        yield memory.subarray(at, Math.min(size, at + chunkBytes));
    },
    close: () => buffers.giveBack(memory),
  };
}

/** Undefined if no spool can be made, or it has no room. Throws SnapshotMoved if the file visibly changes. */
export async function copyToSpool(
  snapshot: Snapshot,
  spool: WorkerData['spool'],
  buffer: Uint8Array,
  signal: AbortSignal,
): Promise<Copy | undefined> {
  if (spool === undefined || dataBytes(snapshot) > spool.limitBytes) return undefined;
  const fd = createSpool(spool.dir);
  if (fd === undefined) return undefined;
  let isWhole = false;
  try {
    isWhole = await fill(fd, spool.limitBytes, chunksOf(snapshot, buffer, signal));
  } finally {
    if (!isWhole) fs.closeSync(fd);
  }
  if (!isWhole) return undefined;
  const range = { first: 0, end: snapshot.facts.size };
  return {
    chunks: (signal) => chunksBetween({ fd, path: snapshot.path }, range, buffer, signal),
    close: () => fs.closeSync(fd),
  };
}

/** The file's allocated size: checked before a byte is copied in vain. */
function dataBytes({ fd, facts }: Snapshot): number {
  const BLOCK_BYTES = 512; // The unit of st_blocks, whatever the file system's own block size: stat(2)
  return Math.min(facts.size, fs.fstatSync(fd).blocks * BLOCK_BYTES);
}

/** The push does not fail: it continues without a spool, and the answer says so. */
function createSpool(dir: string): number | undefined {
  try {
    return createUnnamed(dir);
  } catch {
    return undefined;
  }
}

/** False if there is no room: over the limit, or the disk is full. */
async function fill(fd: number, limitBytes: number, chunks: AsyncIterable<Uint8Array>): Promise<boolean> {
  let at = 0;
  let writtenBytes = 0;
  for await (const chunk of chunks) {
    // The holes of a sparse file stay holes and take no space.
    if (!isZero(chunk)) {
      writtenBytes += chunk.length;
      if (writtenBytes > limitBytes || !hasRoom(() => writeFully(fd, chunk, at))) return false;
    }
    at += chunk.length;
  }
  return hasRoom(() => fs.ftruncateSync(fd, at));
}

/** Each byte equals the one before it. Other content differs within its first bytes, so the check is nearly free. */
function isZero(chunk: Uint8Array): boolean {
  return chunk[0] === 0 && Buffer.compare(chunk.subarray(1), chunk.subarray(0, -1)) === 0;
}

function writeFully(fd: number, bytes: Uint8Array, at: number): void {
  for (let done = 0; done < bytes.length;)
    done += fs.writeSync(fd, bytes, done, bytes.length - done, at + done);
}

/** ENOSPC, EDQUOT, EFBIG (`ulimit -f`): the push continues without a spool. */
function hasRoom(write: () => void): boolean {
  try {
    write();
    return true;
  } catch {
    return false;
  }
}
