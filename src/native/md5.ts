// md5 of what stands in an open file.
import fs from 'node:fs';
import { promisify } from 'node:util';
import { newMd5 } from '../model/md5.ts';

const READ_BYTES = 2 ** 20;
const read = promisify(fs.read);

/** md5 of an open file, as hex: from its beginning to its end, or of the part of `range` that it has. */
export async function md5OfFile(
  fd: number,
  signal?: AbortSignal,
  { first, end }: { readonly first: number; readonly end: number } = { first: 0, end: Infinity },
): Promise<string> {
  const md5 = newMd5();
  const buffer = Buffer.allocUnsafe(READ_BYTES);
  for (let at = first; ;) {
    signal?.throwIfAborted();
    // oxlint-disable-next-line no-await-in-loop -- one buffer, read and hashed in turn
    const { bytesRead } = await read(fd, buffer, 0, Math.min(READ_BYTES, end - at), at);
    if (bytesRead === 0) return md5.digest();
    md5.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
}
