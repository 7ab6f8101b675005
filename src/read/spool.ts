// A private copy of what is to be stored, for a file that was once rewritten while it was being sent. It has
// no name from its first moment on, so nothing is left behind, however we end.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { PartBuffers } from './part-buffers.ts';
import type { Parts } from './parts.ts';
import type { Bytes } from './reading.ts';

export interface Spool {
  /** False when there is no room for it: over the limit, or the disk is full. The spool is then useless. */
  append(bytes: Uint8Array): boolean;
  /** What was appended, in parts of `partBytes`. */
  parts(partBytes: number, buffers: PartBuffers): Parts;
  close(): void;
}

/** Undefined where no file can be made. */
export function openSpool(dir: string, limitBytes: number): Spool | undefined {
  const fd = createUnnamed(dir);
  if (fd === undefined) return undefined;
  let sizeBytes = 0;
  return {
    append: (bytes) => {
      if (sizeBytes + bytes.length > limitBytes || !writeFully(fd, bytes)) return false;
      sizeBytes += bytes.length;
      return true;
    },
    parts: async function* (partBytes, buffers) {
      let at = 0;
      for (; sizeBytes - at > partBytes; at += partBytes) yield readFully(fd, at, buffers.take(partBytes));
      return readFully(fd, at, new Uint8Array(sizeBytes - at));
    },
    close: () => fs.closeSync(fd),
  };
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

function writeFully(fd: number, bytes: Uint8Array): boolean {
  try {
    for (let at = 0; at < bytes.length;) at += fs.writeSync(fd, bytes, at);
    return true;
  } catch {
    return false;
  }
}

function readFully(fd: number, at: number, bytes: Bytes): Bytes {
  for (let filled = 0; filled < bytes.length;) {
    const readBytes = fs.readSync(fd, bytes, filled, bytes.length - filled, at + filled);
    if (readBytes === 0)
      throw new Error(`the spool is shorter than what was written to it (${at + filled} bytes)`);
    filled += readBytes;
  }
  return bytes;
}
