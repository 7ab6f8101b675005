// What the tests of readings share: a body read to its end, and contents that compress well or not at all.
import { createHash, randomBytes } from 'node:crypto';
import type { Body, Proof, Reading } from '../../src/read/reading.ts';
import { decompressStream } from '../../src/restore/decompress.ts';

export const MiB = 2 ** 20;
export const ZSTD = { kind: 'zstd', level: 1 } as const;
export const RAW = { kind: 'none' } as const;

export function bodyOf(reading: Reading): Body {
  if (reading.kind !== 'body') throw new Error(`expected a body, got: ${JSON.stringify(reading)}`);
  return reading;
}

export interface Whole {
  readonly partSizes: readonly number[];
  readonly stored: Buffer;
  /** After decompression, where there was compression. */
  readonly plain: Buffer;
  readonly proof: Proof;
}

export async function readAll(body: Body): Promise<Whole> {
  const parts: Uint8Array[] = [];
  for await (const part of body.parts) parts.push(part);
  const stored = Buffer.concat(parts);
  const plain = body.compressed ? await collect(decompressStream(inPieces(stored))) : stored;
  return { partSizes: parts.map((part) => part.length), stored, plain, proof: await body.done };
}

export async function collect(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of source) pieces.push(piece);
  return Buffer.concat(pieces);
}

export async function* inPieces(bytes: Uint8Array, pieceBytes = 100_000): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
}

export function md5Of(bytes: Uint8Array): string {
  return createHash('md5').update(bytes).digest('hex');
}

/** About a quarter of its size with zstd. */
export function compressible(sizeBytes: number): Buffer {
  const half = randomBytes(Math.ceil(Math.min(sizeBytes, 4 * MiB) / 4));
  const bytes = Buffer.alloc(sizeBytes);
  for (let at = 0; at < sizeBytes; at += 16)
    half.copy(bytes, at, (at / 4) % half.length, ((at / 4) % half.length) + 4);
  return bytes;
}

/** Numbers as a simulation writes them: three quarters of their size with zstd-1, less than a half with zstd-3. */
export function numbers(sizeBytes: number): Buffer {
  let state = 1;
  const values = Float64Array.from({ length: sizeBytes / 8 }, (_, i) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.fround(1000 * Math.sin(i / 997)) + (state >>> 12) / 2 ** 24;
  });
  return Buffer.from(values.buffer);
}

/** About nine tenths of its size with zstd: stored compressed, and still in several parts. */
export function slightlyCompressible(sizeBytes: number): Buffer {
  const bytes = randomBytes(sizeBytes);
  for (let at = 0; at < sizeBytes; at += 1000) bytes.subarray(at, at + 100).fill(0);
  return bytes;
}

export function incompressible(sizeBytes: number): Buffer {
  return randomBytes(sizeBytes);
}
