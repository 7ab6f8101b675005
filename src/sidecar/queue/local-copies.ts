// Which results are both here and durable, so that their local copies could be deleted. One is known for each file of a
// task that may write hundreds of thousands.
import type { Fingerprint } from '../../model/file/file-state.ts';
import {
  FINGERPRINT_BYTES,
  readFingerprint,
  writeCount,
  writeFingerprint,
} from '../../model/packed/fields.ts';
import { PackedMap, type Paths, type RowCodec } from '../../model/packed/packed-map.ts';
import type { RelPath } from '../../model/path.ts';

/** A result that is both here and durable. */
export interface LocalCopy {
  /** As it was pushed. */
  readonly fingerprint: Fingerprint;
  /** Closes since the task started, as counted when it was read. */
  readonly closes: number;
  /** True if this attempt pushed it; else the bytes were durable before (an unchanged baseline). */
  readonly isOurs: boolean;
}

export interface Amount {
  readonly files: number;
  readonly bytes: number;
}

const CLOSES = FINGERPRINT_BYTES;
const OURS = CLOSES + 4;

const copyRow: RowCodec<LocalCopy> = {
  bytes: OURS + 1,
  write: ({ fingerprint, closes, isOurs }, row, at) => {
    row[at + OURS] = isOurs ? 1 : 0;
    return writeFingerprint(fingerprint, row, at) && writeCount(closes, row, at + CLOSES);
  },
  read: (row, at) => ({
    fingerprint: readFingerprint(row, at),
    closes: row.readUInt32LE(at + CLOSES),
    isOurs: row[at + OURS] === 1,
  }),
};

/** True if it was not reopened after a close: it will hardly be needed again. */
export function isClosedOnce({ closes }: LocalCopy): boolean {
  return closes <= 1;
}

/**
 * Results whose bytes are durable and that are still in the work directory, so that they could be reclaimed. Knows
 * their number and size at any time without looking at each.
 */
export class LocalCopies {
  readonly #copies: PackedMap<LocalCopy>;
  #bytes = 0;
  #once: Amount = { files: 0, bytes: 0 };

  constructor(paths?: Paths) {
    this.#copies = new PackedMap(copyRow, paths);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Those that were closed once. */
  get once(): Amount {
    return this.#once;
  }

  note(path: RelPath, copy: LocalCopy): void {
    this.forget(path);
    this.#copies.set(path, copy);
    this.#count(copy, 1);
  }

  forget(path: RelPath): void {
    const copy = this.#copies.get(path);
    if (copy === undefined) return;
    this.#copies.delete(path);
    this.#count(copy, -1);
  }

  [Symbol.iterator](): Iterator<[RelPath, LocalCopy]> {
    return this.#copies[Symbol.iterator]();
  }

  #count(copy: LocalCopy, by: 1 | -1): void {
    const { size } = copy.fingerprint;
    this.#bytes += by * size;
    if (!isClosedOnce(copy)) return;
    const { files, bytes } = this.#once;
    this.#once = { files: files + by, bytes: bytes + by * size };
  }
}
