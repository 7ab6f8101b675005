// A private copy of a file's bytes. The file must stand still only while it is taken: a read and a write cost a
// fraction of md5 and zstd, which then take their time. What is one part is copied into memory, the rest into the
// spool: a file without a name from its first moment on, so nothing is left behind, however we end.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { partSizeBytes, type PartBuffers } from './parts.ts';
import type { WorkerData } from './reading.ts';
import { chunksBetween, chunksOf, readAt, type Snapshot } from './snapshot.ts';

export interface Copy {
  /** The bytes from the start, as often as they are asked for. A chunk is valid until the next is asked for. */
  chunks(signal: AbortSignal): AsyncGenerator<Uint8Array, undefined>;
  close(): void;
}

/** Of a file of one part. Throws SnapshotMoved when the file has become shorter. */
export function copyToMemory(snapshot: Snapshot, buffers: PartBuffers, chunkBytes: number): Copy {
  const { size } = snapshot.facts;
  const memory = buffers.take(partSizeBytes(size));
  for (let at = 0; at < size;) at += readAt(snapshot, memory.subarray(at, size), at);
  return {
    chunks: async function* (): AsyncGenerator<Uint8Array, undefined> {
      for (let at = 0; at < size; at += chunkBytes)
        yield memory.subarray(at, Math.min(size, at + chunkBytes));
    },
    close: () => buffers.giveBack(memory),
  };
}

/** Undefined when no spool can be made, or it has no room. Throws SnapshotMoved when the file is seen to change. */
export async function copyToSpool(
  snapshot: Snapshot,
  spool: WorkerData['spool'],
  buffer: Uint8Array,
  signal: AbortSignal,
): Promise<Copy | undefined> {
  if (spool === undefined || dataBytes(snapshot) > spool.limitBytes) return undefined;
  const fd = createUnnamed(spool.dir);
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

/** What the file takes on its disk: known before the first byte is copied in vain. */
function dataBytes({ fd, facts }: Snapshot): number {
  const BLOCK_BYTES = 512; // of st_blocks, whatever the file system's own blocks are: stat(2)
  return Math.min(facts.size, fs.fstatSync(fd).blocks * BLOCK_BYTES);
}

function createUnnamed(dir: string): number | undefined {
  const name = path.join(dir, `capture-spool-${randomUUID()}`);
  try {
    const { O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = fs.constants;
    const fd = fs.openSync(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
    fs.unlinkSync(name);
    return fd;
  } catch {
    // Not a failure of the push: it goes on without a spool, and the reading says so.
    return undefined;
  }
}

/** False when there is no room: over the limit, or the disk is full. */
async function fill(fd: number, limitBytes: number, chunks: AsyncIterable<Uint8Array>): Promise<boolean> {
  let at = 0;
  let writtenBytes = 0;
  for await (const chunk of chunks) {
    // The holes of a sparse file stay holes: they cost no room.
    if (!isZero(chunk)) {
      writtenBytes += chunk.length;
      if (writtenBytes > limitBytes || !hasRoom(() => writeFully(fd, chunk, at))) return false;
    }
    at += chunk.length;
  }
  return hasRoom(() => fs.ftruncateSync(fd, at));
}

/** Each byte equals the one before it. Any other content is known by its first bytes, so the look costs nothing. */
function isZero(chunk: Uint8Array): boolean {
  return chunk[0] === 0 && Buffer.compare(chunk.subarray(1), chunk.subarray(0, -1)) === 0;
}

function writeFully(fd: number, bytes: Uint8Array, at: number): void {
  for (let done = 0; done < bytes.length;)
    done += fs.writeSync(fd, bytes, done, bytes.length - done, at + done);
}

/** ENOSPC, EDQUOT, EFBIG (`ulimit -f`): for each of them the push goes on without a spool. */
function hasRoom(write: () => void): boolean {
  try {
    write();
    return true;
  } catch {
    return false;
  }
}
