// md5 of bytes that arrive in pieces: node:crypto, or hash-wasm where a FIPS build refuses md5. It is the
// name of a content here, no protection: whoever can write to the store can write the record, too.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { promisify } from 'node:util';

const READ_BYTES = 2 ** 20;
const read = promisify(fs.read);

export interface Md5 {
  update(bytes: Uint8Array): unknown;
  digest(encoding: 'hex'): string;
}

/** A fresh md5. `native` makes it, and may throw. */
export async function createMd5(native: (algorithm: 'md5') => Md5 = createHash): Promise<Md5> {
  try {
    return native('md5');
  } catch {
    // ERR_OSSL_EVP_UNSUPPORTED: slower (facts: 587 against 760 MB/s), and the same sum.
    const wasm = await import('hash-wasm');
    return (await wasm.createMD5()).init();
  }
}

/** md5 of an open file, as hex: from its beginning to its end, or of the part of `range` that it has. */
export async function md5OfFile(
  fd: number,
  signal?: AbortSignal,
  { first, end }: { readonly first: number; readonly end: number } = { first: 0, end: Infinity },
): Promise<string> {
  const md5 = await createMd5();
  const buffer = Buffer.allocUnsafe(READ_BYTES);
  for (let at = first; ;) {
    signal?.throwIfAborted();
    // oxlint-disable-next-line no-await-in-loop -- one buffer, read and hashed in turn
    const { bytesRead } = await read(fd, buffer, 0, Math.min(READ_BYTES, end - at), at);
    if (bytesRead === 0) return md5.digest('hex');
    md5.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
}
