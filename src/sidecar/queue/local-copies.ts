// Results that are durable and still in the work directory, so that their local copies could be deleted. There is one
// entry for each result of a task that may write hundreds of thousands of them.
import type { Fingerprint } from '../../model/file/file-state.ts';
import {
  FINGERPRINT_BYTES,
  readFingerprint,
  writeCount,
  writeFingerprint,
} from '../../model/packed/fields.ts';
import { PackedMap, type Paths, type RowCodec } from '../../model/packed/packed-map.ts';
import type { RelPath } from '../../model/path.ts';

/** A result that is durable and still in the work directory. */
export interface LocalCopy {
  /** As it was pushed. */
  readonly fingerprint: Fingerprint;
  /** Closes since the task started, counted when the file was read. */
  readonly closes: number;
  /** True if this attempt pushed it; false if the bytes were durable before (an unchanged baseline). */
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

/** True if the file was not reopened after its first close: it will hardly be needed again. */
export function isClosedOnce({ closes }: LocalCopy): boolean {
  return closes <= 1;
}

/**
 * Results whose bytes are durable and that are still in the work directory, so that they can be reclaimed. Keeps their
 * number and size, so that no query looks at each of them.
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

  /** The copies whose file was closed once. */
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
