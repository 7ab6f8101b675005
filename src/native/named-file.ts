// Reads a file that the user has named: patterns, tasks, indices, options, certificates. It must never wait for a FIFO,
// move a device, or fill the memory.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import { decodePath, encodePath } from '../model/path.ts';
import { formatBytes } from '../model/units.ts';

/** A million commands of 60 bytes. */
const MOST_BYTES = 64 * 2 ** 20;
/** Of patterns, and of defaults: each line of theirs may become a message, in the small heap of a launcher. */
export const MOST_LIST_BYTES = 2 ** 20;
const CHUNK_BYTES = 2 ** 20;
/** `<(command)`, stdin, and what stands for nothing. Somebody has opened it, so it needs not be a regular file. */
const OPEN_ALREADY = /^\/dev\/(?:null|stdin|fd\/\d+)$|^\/proc\/self\/fd\/\d+$/;
const PAUSE_MS = 10;

/**
 * The bytes of a regular file, or of what {@link OPEN_ALREADY} names. Throws as open(2) and read(2) do, and an Error if
 * it is a FIFO, a device or a socket, or has more than `mostBytes`: 64 MiB if left out.
 */
export function readNamedFile(file: string, mostBytes = MOST_BYTES): Buffer {
  const path = encodePath(file);
  // Opening a FIFO would let its writer go on, and opening a device may move it (fifo(7), st(4)).
  refuseSpecial(file, fs.statSync(path));
  const { O_RDONLY, O_NONBLOCK, O_NOCTTY } = fs.constants;
  const fd = fs.openSync(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  try {
    refuseSpecial(file, fs.fstatSync(fd));
    const read: Buffer[] = [];
    for (let sizeBytes = 0; ;) {
      const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
      const length = readSome(fd, chunk, OPEN_ALREADY.test(file));
      if (length === 0) return Buffer.concat(read);
      sizeBytes += length;
      if (sizeBytes > mostBytes) throw new Error(`it has more than ${formatBytes(mostBytes)}`);
      read.push(chunk.subarray(0, length));
    }
  } finally {
    fs.closeSync(fd);
  }
}

/** The same as text, with names that are not UTF-8 preserved. Throws an Error also for a NUL byte. */
export function readNamedText(file: string, mostBytes?: number): string {
  const bytes = readNamedFile(file, mostBytes);
  if (bytes.includes(0)) throw new Error('it has a NUL byte: this is no text');
  return decodePath(bytes);
}

function refuseSpecial(file: string, stat: fs.Stats): void {
  if (stat.isFile() || stat.isDirectory() || OPEN_ALREADY.test(file)) return;
  throw new Error('it is no regular file; the output of a command is <(command), or /dev/stdin');
}

/** `waits`: for a writer that has more to write. */
function readSome(fd: number, into: Buffer, waits: boolean): number {
  for (;;) {
    try {
      return fs.readSync(fd, into);
    } catch (error) {
      if (!waits || errnoOf(error) !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS);
    }
  }
}
