// Results of indices as pushes leave them, for what gathers them.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { resultKey } from '../../../src/model/format/keys.ts';
import type { StoredFile } from '../../../src/model/format/records.ts';
import { loadZstd } from '../../../src/native/zstd.ts';
import type { StoreOfRecords } from '../store-of-records.ts';

const zstd = loadZstd();
export const MTIME_NS = '1795187436573462462';

/** Puts a result as a push leaves it, and says what its record tells. */
export function result(
  stored: StoreOfRecords,
  index: string,
  name: string,
  content: Buffer,
  more: Partial<StoredFile> = {},
): StoredFile {
  const compressed = isCompressed(name);
  const key = resultKey(name, { taskName: 't', index }, compressed);
  stored.put(key, compressed ? frameOf(content) : content);
  return {
    path: name,
    kind: 'file',
    key,
    push: 'p',
    attempt: 1,
    md5: createHash('md5').update(content).digest('hex'),
    size: content.length,
    compressed,
    mtimeNs: MTIME_NS,
    mode: 0o640,
    ...more,
  };
}

function frameOf(content: Buffer): Buffer {
  if (zstd === undefined) throw new Error('no zstd');
  const frame = Buffer.alloc(zstd.compressBound(content.length));
  return frame.subarray(0, zstd.compress(frame, content, 1));
}

export const textOf = (index: string, name: string): Buffer =>
  Buffer.from(`${name} of ${index}\n`.repeat(100));

/** Of the results of each index. */
export const NAMES = ['r.dat', 'out/log.txt', 'out/a b'] as const;

/** Indices 0 to n-1, done, with these results each. */
export function fill(stored: StoreOfRecords, n: number): void {
  for (const index of Array.from({ length: n }, (_, at) => String(at))) {
    const results = NAMES.map((name) => result(stored, index, name, textOf(index, name)));
    stored.record({ index, attempt: 1, seq: 2, kind: 'done', results });
  }
}

/** Of all files below a directory the paths in it. */
export function filesBelow(at: string): readonly string[] {
  return fs
    .readdirSync(at, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => path.relative(at, path.join(entry.parentPath, entry.name)))
    .toSorted();
}

/** The key of a result that {@link fill} has put, by the name that a gathering gives it. */
export function keyOf(name: string): string {
  const [, index = '', rest = ''] = /^(\d+)\/(.*)$/.exec(name) ?? [];
  return resultKey(rest, { taskName: 't', index }, isCompressed(rest));
}

function isCompressed(name: string): boolean {
  return name.endsWith('.txt') && zstd !== undefined;
}
