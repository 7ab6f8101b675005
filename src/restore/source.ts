// What a restore needs to know of a stored file, and what it finds out if no record says it.
import type { Companion } from '../model/format/records.ts';
import type { RelPath } from '../model/path.ts';
import type { ObjectHead } from '../store/contract/store.ts';

/**
 * A stored file to bring into the work directory. Every StoredFile of a record is one. An input that is only known by
 * its key lacks what nobody has written down; then nothing can be checked but that it was read whole.
 */
export interface Source {
  readonly path: RelPath;
  readonly kind: 'file' | 'link';
  readonly key: string;
  readonly compressed: boolean;
  /** Of the uncompressed bytes. */
  readonly md5?: string;
  /** Uncompressed bytes. */
  readonly size?: number;
  readonly mtimeNs?: string;
  /** Only the permission bits are used: nobody gets a setuid program out of a bucket. */
  readonly mode?: number;
  /** Without a mode: who may not read the object may not read the file either. */
  readonly mostMode?: number | undefined;
  /** Of a companion: the objects that it is joined from, in order, instead of `key`. */
  readonly segments?: readonly SegmentSource[];
}

export interface SegmentSource {
  readonly key: string;
  readonly compressed: boolean;
  /** Of the uncompressed bytes, as `size`. */
  readonly md5: string;
  readonly size: number;
}

export function sourceOfCompanion({ path, size, mode, segments }: Companion): Source {
  return { path, kind: 'file', key: '', compressed: false, size, mode, segments };
}

/**
 * An input that no record describes: what its object says of it. Other programs write metadata of the same names, so
 * only what reads as ours is believed.
 */
export function sourceOfObject(path: RelPath, head: ObjectHead, compressed: boolean): Source {
  const { key, sizeBytes, meta, modifiedMs, permissions } = head;
  const matching = (name: string, pattern: RegExp): string | undefined => {
    const value = meta[name];
    return value !== undefined && pattern.test(value) ? value : undefined;
  };
  const size = matching('size', /^\d{1,15}$/);
  // A compressed object that was copied to a plain name: what is said of its content is not of these bytes.
  const isSaidOfThese = compressed || size === undefined || toNumber(size) === sizeBytes;
  const mode = matching('mode', /^[0-7]{1,4}$/);
  return {
    path,
    kind: meta['link'] === '1' ? 'link' : 'file',
    key,
    compressed,
    md5: isSaidOfThese ? matching('md5', /^[0-9a-f]{32}$/) : undefined,
    size: compressed ? toNumber(size) : sizeBytes,
    // Another program's is in another unit.
    mtimeNs: (meta['capture'] && matching('mtime', /^-?\d{1,20}$/)) || nanoseconds(modifiedMs),
    mode: mode === undefined ? undefined : Number.parseInt(mode, 8),
    mostMode: permissions,
  };
}

/** A file that is as new as its download would be newer than all that make and its like have made of it. */
function nanoseconds(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : String(BigInt(Math.round(ms)) * 1_000_000n);
}

function toNumber(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}
