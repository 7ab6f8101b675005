// Reads a small file at once, on the calling thread: reading, proving, hashing and compressing takes less time than a
// round trip to a worker. Never for a file on a file server, which may block this thread for any time.
import fs from 'node:fs';
import os from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { isStoredAs } from '../model/file/baseline.ts';
import { md5Of } from '../model/md5.ts';
import { type RelPath, showPath } from '../model/path.ts';
import { lstatBeneath, type WorkDir } from '../native/beneath.ts';
import { compileLess } from '../native/compiling.ts';
import { Devices } from '../native/network-files.ts';
import { Buffers } from './buffers.ts';
import { type Compressor, compressorOfThread, pack } from './encode.ts';
import { type Reading, type ReadJob, SnapshotMoved, wholeBody } from './reading.ts';
import {
  movedSince,
  type Opened,
  openSnapshot,
  readAt,
  type Snapshot,
  type SnapshotRules,
} from './snapshot.ts';

/** A thread needs about 2 ms to read, hash and compress this much, and many such files fit into memory. */
export const SMALL_BYTES = 256 * 2 ** 10;
/** Enough for a steady stream of results, each of which needs two buffers. */
const SPARE = 16;

/** Shared by all work directories that are read on one thread. */
export function newSmallBuffers(): Buffers {
  return new Buffers(SMALL_BYTES, SPARE);
}

/** Reads on the calling thread. */
export class SmallFiles {
  readonly #root: WorkDir;
  readonly #mostBytes: number;
  readonly #devices: Devices;
  readonly #buffers: Buffers;
  #isClosed = false;

  /** `mostBytes`: larger files are not read here. */
  constructor(root: WorkDir, mostBytes: number, buffers = newSmallBuffers()) {
    this.#root = root;
    this.#mostBytes = mostBytes;
    this.#devices = new Devices(root);
    this.#buffers = buffers;
  }

  /** Like `Workers.read`; `elsewhere` if the file is too large, or on a network file system. */
  async read(job: ReadJob, signal?: AbortSignal): Promise<Reading | ReadElsewhere> {
    const expectedBytes = job.held?.facts.size ?? job.expected?.size ?? 0;
    const stat = this.#lstat(job.path);
    const isRemote = stat !== undefined && this.#devices.isRemote(job.path, stat.dev);
    if (expectedBytes > this.#mostBytes || isRemote) return { kind: 'elsewhere', sizeBytes: expectedBytes };
    compileLess();
    const compressor = await compressorOfThread();
    const opened = await this.#openAtRest(job, stat, signal);
    if (opened.kind !== 'open') return opened;
    const { size } = opened.facts;
    if (size > this.#mostBytes) {
      fs.closeSync(opened.fd);
      return { kind: 'elsewhere', sizeBytes: size };
    }
    const content = this.#buffers.take(size);
    let isSent = false;
    try {
      const reading = await this.#readInto(content, opened, job, compressor);
      isSent = reading.kind === 'body' && !reading.compressed;
      return reading;
    } finally {
      if (!isSent) this.#buffers.giveBack(content);
    }
  }

  /** Pending calls throw. The work directory is not accessed any more. */
  close(): void {
    this.#isClosed = true;
  }

  async #readInto(
    content: Uint8Array,
    opened: Snapshot,
    job: ReadJob,
    compressor: Compressor | undefined,
  ): Promise<Reading> {
    const obstacle = readProven(opened, content);
    if (obstacle !== undefined) return obstacle;
    const { facts } = opened;
    const md5 = md5Of(content);
    if (isStoredAs(job.baseline, facts, md5)) return { kind: 'unchanged', md5, facts };
    const packed = await pack(content, job.compression, compressor, this.#buffers);
    const bytes = packed?.bytes ?? content;
    const proof = { md5, facts, storedBytes: bytes.length };
    const giveBack = (done: Uint8Array): void => this.#buffers.giveBack(done);
    return wholeBody({
      facts,
      compressed: packed !== undefined,
      md5,
      spool: 'unused',
      bytes,
      proof,
      giveBack,
    });
  }

  /** Undefined if it is gone, or if its directory no longer exists: opening it tells which. */
  #lstat(path: RelPath): fs.BigIntStats | undefined {
    try {
      return lstatBeneath(this.#root, path);
    } catch {
      return undefined;
    }
  }

  /** A file that changed so recently that another change could be invisible is looked at again after a pause. */
  async #openAtRest(
    { path, expected, held }: ReadJob,
    lstat: fs.BigIntStats | undefined,
    signal: AbortSignal | undefined,
  ): Promise<AtRest> {
    let before: Pick<SnapshotRules, 'lstat' | 'seen'> = { lstat };
    for (;;) {
      signal?.throwIfAborted();
      if (this.#isClosed) throw new Error(`cannot read ${showPath(path)}: the workers are closed`);
      const rules = { expected, held, ...before, kernelRelease: os.release(), nowMs: Date.now() };
      const opened = openSnapshot(this.#root, path, rules);
      if (opened.kind !== 'fresh') return opened;
      before = { seen: opened.facts };
      // oxlint-disable-next-line no-await-in-loop -- the second look comes after the wait
      await pause(opened.waitMs);
    }
  }
}

type AtRest = Exclude<Opened, { readonly kind: 'fresh' }>;

interface ReadElsewhere {
  readonly kind: 'elsewhere';
  /** As far as known. */
  readonly sizeBytes: number;
}

/**
 * Fills `content` with all bytes of a file that did not change in that time; otherwise returns what happened. Closes
 * the file.
 */
function readProven(
  snapshot: Snapshot,
  content: Uint8Array,
): { readonly kind: 'writer' | 'moved' } | undefined {
  try {
    for (let at = 0; at < content.length;) at += readAt(snapshot, content.subarray(at), at);
    const moved = movedSince(snapshot);
    return moved && { kind: moved };
  } catch (error) {
    if (error instanceof SnapshotMoved) return { kind: movedSince(snapshot) ?? 'moved' };
    throw error;
  } finally {
    fs.closeSync(snapshot.fd);
  }
}
