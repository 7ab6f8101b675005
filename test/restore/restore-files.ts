// Stored files for the tests of restore: an object in a memory store, and the source that a record makes of it.
import { createHash } from 'node:crypto';
import { compress } from 'zstd-napi';
import type { Source } from '../../src/restore/source.ts';
import type { MemoryStore } from '../support/memory-store.ts';

export const MTIME_NS = '1700000000123456789';

export interface StoredAs {
  readonly compressed?: boolean;
  readonly kind?: 'file' | 'link';
  readonly mode?: number;
}

/** Puts `content` under `<path>.3` and gives what a record would say of it. */
export function storeFile(
  store: MemoryStore,
  path: string,
  content: string | Uint8Array,
  { compressed = false, kind = 'file', mode = 0o640 }: StoredAs = {},
): Required<Omit<Source, 'segments' | 'isAsStored'>> {
  const plain = Buffer.from(content);
  const key = `${path}.3${compressed ? '.zst' : ''}`;
  store.objects.set(key, { bytes: compressed ? compress(plain) : plain, meta: { push: path } });
  const md5 = createHash('md5').update(plain).digest('hex');
  return { path, kind, key, compressed, md5, size: plain.length, mtimeNs: MTIME_NS, mode };
}
