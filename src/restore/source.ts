// What a restore needs to know of a stored file, and what it finds out if no record says it.
import { TIME_NS } from '../model/file/file-state.ts';
import { inputKey, sealedEnding } from '../model/format/keys.ts';
import type { Companion } from '../model/format/records.ts';
import type { RelPath } from '../model/path.ts';
import type { ObjectHead } from '../store/contract/store.ts';

/**
 * A stored file to bring into the work directory. Every StoredFile of a record is one. An input that is known only by
 * its key lacks the other fields: then the only check is that it was read to its end.
 */
export interface Source {
  readonly path: RelPath;
  readonly kind: 'file' | 'link';
  readonly key: string;
  readonly compressed: boolean;
  /** The object is the file, also if its name says that it is encrypted. */
  readonly isAsStored?: boolean;
  /** Of the uncompressed bytes. */
  readonly md5?: string;
  /** Uncompressed bytes. */
  readonly size?: number;
  readonly mtimeNs?: string;
  /** Only the permission bits are used: no object in a bucket can create a setuid program. */
  readonly mode?: number;
  /** The objects of a companion, joined in order, instead of `key`. */
  readonly segments?: readonly SegmentSource[];
}

export interface SegmentSource {
  readonly key: string;
  readonly compressed: boolean;
  /** Of the uncompressed bytes, like `size`. */
  readonly md5: string;
  readonly size: number;
}

export function sourceOfCompanion({ path, size, mode, segments }: Companion): Source {
  return { path, kind: 'file', key: '', compressed: false, size, mode, segments };
}

/**
 * An input without a record: the facts in its object's metadata. Other programs write metadata of the same names, so
 * only values in capture's format are used.
 */
export function sourceOfObject(path: RelPath, head: ObjectHead, compressed: boolean): Source {
  const { key, sizeBytes, meta, modifiedMs } = head;
  const matching = (name: string, pattern: RegExp): string | undefined => {
    const value = meta[name];
    return value !== undefined && pattern.test(value) ? value : undefined;
  };
  const size = matching('size', /^\d{1,15}$/);
  // A compressed object that was copied to a plain name: its metadata does not describe these bytes.
  const isSealed = sealedEnding(key) !== undefined && key !== inputKey(path);
  const isSaidOfThese = compressed || isSealed || size === undefined || toNumber(size) === sizeBytes;
  const mode = matching('mode', /^[0-7]{1,4}$/);
  return {
    path,
    kind: meta['link'] === '1' ? 'link' : 'file',
    key,
    compressed,
    isAsStored: key === inputKey(path),
    md5: isSaidOfThese ? matching('md5', /^[0-9a-f]{32}$/) : undefined,
    size: compressed || isSealed ? toNumber(size) : sizeBytes,
    // Other programs use another unit.
    mtimeNs: (meta['capture'] && matching('mtime', TIME_NS)) || nanoseconds(modifiedMs),
    mode: mode === undefined ? undefined : Number.parseInt(mode, 8),
  };
}

/**
 * Keeps the object's time: a file dated at its download would be newer than everything that `make` has built from it.
 */
function nanoseconds(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : String(BigInt(Math.round(ms)) * 1_000_000n);
}

function toNumber(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}
