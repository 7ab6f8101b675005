// What a restore needs to know of a stored file, and what is known of it when nobody recorded it.
import type { RelPath } from '../model/path.ts';

/**
 * A stored file to bring into the work directory. Every StoredFile of a record is one; an input that is only
 * known by its key lacks what nobody has written down, and then nothing can be checked but that it was read whole.
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
