// Requests and answers of a worker: the types shared by the upload and by both threads.
import type { Baseline } from '../model/file/baseline.ts';
import type { FilePiece } from '../model/checkpoint/companions.ts';
import type { FileFacts, Fingerprint } from '../model/file/file-state.ts';
import { type RelPath, showPath } from '../model/path.ts';
import type { WorkDir } from '../native/beneath.ts';

/** How to compress the bytes of one job. */
export type JobCompression =
  | {
      readonly kind: 'zstd';
      readonly level: number;
      /** A file of more than one part gets the best level for a link of this rate (`--compression zstd:auto`). */
      readonly linkBytesPerS?: number | undefined;
    }
  | { readonly kind: 'none' };

/** A state of a file, kept by an open descriptor of this process: its name may be gone, or belong to another file. */
export interface HeldState {
  readonly fd: number;
  readonly facts: FileFacts;
}

export interface ReadJob {
  readonly path: RelPath;
  /** Any other state of the file is refused: the answer is then `moved`. */
  readonly expected?: Fingerprint;
  /** Read this open file, whatever is at the path by now. It stays open until the answer. */
  readonly held?: HeldState | undefined;
  /** The state is wanted even if its name vanishes during the reading: unlinked, or replaced by a rename. */
  readonly outlivesName?: boolean;
  readonly compression: JobCompression;
  /** Content that is known to be stored: an equal file is `unchanged` and has no body. */
  readonly baseline?: Baseline | undefined;
  /** Copy a file of more than one part to the spool, and prove the copy first. */
  readonly spoolFirst: boolean;
  /** Read before all jobs that are not urgent. */
  readonly urgent?: boolean;
}

/** The end of a file that is being appended to. Its bytes up to `end` are assumed to stay. */
export interface RangeJob {
  readonly path: RelPath;
  /** Identifies the file itself, whatever was renamed to its path since. */
  readonly file: Pick<Fingerprint, 'dev' | 'ino'>;
  /** From the start of the file, without a gap. The range begins after the last piece that the file still holds. */
  readonly known: readonly FilePiece[];
  /** If the file still holds this piece, the known ones are not compared. */
  readonly tail: FilePiece | undefined;
  /** One past the last byte of the range. */
  readonly end: number;
  readonly compression: JobCompression;
}

/**
 * Why there is nothing to send. `writer`: a process has it open for writing. `gone`: there is no such file. `moved`:
 * it changed during the reading, or is not the expected one. `refused`: capture must not read it.
 */
export type Obstacle =
  | { readonly kind: 'writer' | 'gone' | 'moved' }
  | { readonly kind: 'refused'; readonly why: string };

/** The proof of a whole reading. `storedBytes`: the size of all parts, compressed or not. */
export interface Proof {
  readonly md5: string;
  readonly facts: FileFacts;
  readonly storedBytes: number;
  /** Of a range: the bytes before its end, to recognise it next time. */
  readonly tail?: FilePiece;
}

/** Facts of a body that are known before its first byte is sent. */
export interface BodyHead {
  readonly facts: FileFacts;
  /** Plain zstd frames; false if compression was not requested or hardly shrinks the file. */
  readonly compressed: boolean;
  /** Set if the whole file was read already. */
  readonly md5?: string;
  /** `full`: the spool was requested but had no room, or could not be used; the body is read while it is sent. */
  readonly spool: 'unused' | 'used' | 'full';
  /** Of a range: its first byte. */
  readonly first?: number;
}

export interface PartIterator extends AsyncIterableIterator<Uint8Array> {
  /**
   * Returns a part's memory for reuse. `return()` does so for all parts: the reader must call it when it no longer
   * uses any of them.
   */
  release(part: Uint8Array): void;
}

export interface Body extends BodyHead {
  readonly kind: 'body';
  /**
   * Parts of one size, and a smaller last one; at least one part, which may be empty. A part belongs to the reader
   * until it is released, or until `return()` ends them all. The last part is held back until the file is proven
   * unchanged; otherwise SnapshotMoved is thrown. Read it to its end or call `return()`: until then it occupies a
   * worker, unless it has only one part.
   */
  readonly parts: PartIterator;
  /** All content of `parts`, if it is one part that is proven already. */
  readonly whole?: Uint8Array;
  /** Resolves with the last part; rejects with the error of `parts`. Nobody has to await it. */
  readonly done: Promise<Proof>;
}

export interface WholeBody extends BodyHead {
  readonly bytes: Uint8Array;
  readonly proof: Proof;
  /** Called once, when the reader no longer needs the bytes. */
  readonly giveBack: (bytes: Uint8Array) => void;
}

/** A body of one part that is proven already. */
export function wholeBody({ bytes, proof, giveBack, ...head }: WholeBody): Body {
  let left: Uint8Array | undefined = bytes;
  let isHeld = true;
  const release = (): void => {
    if (isHeld) giveBack(bytes);
    isHeld = false;
  };
  const parts: PartIterator = {
    [Symbol.asyncIterator]: () => parts,
    next: () => {
      const value = left;
      left = undefined;
      return Promise.resolve(value === undefined ? { done: true, value } : { done: false, value });
    },
    return: () => {
      left = undefined;
      release();
      return Promise.resolve({ done: true, value: undefined });
    },
    release,
  };
  return { kind: 'body', ...head, parts, whole: bytes, done: Promise.resolve(proof) };
}

export type Reading =
  | Body
  | { readonly kind: 'unchanged'; readonly md5: string; readonly facts: FileFacts }
  | Obstacle;

export type Digest = { readonly kind: 'md5'; readonly md5: string; readonly facts: FileFacts } | Obstacle;

/** The file was changed during the reading: the bytes so far belong to no single moment. */
export class SnapshotMoved extends Error {
  /**
   * A process has it open for writing: its next close will start another push. Without a writer, only a retry helps.
   */
  readonly hasWriter: boolean;

  constructor(path: RelPath, hasWriter: boolean) {
    super(`${showPath(path)} was changed while it was being read`);
    this.name = 'SnapshotMoved';
    this.hasWriter = hasWriter;
  }
}

export type CompressorName = 'zstd-napi' | 'zlib' | 'none';

/** The settings of a worker for all its jobs. */
export interface WorkerData {
  readonly spool: { readonly dir: string; readonly limitBytes: number } | undefined;
}

export interface WorkerRequest {
  /**
   * The work directory of its file: one worker may have jobs of several tasks. Its descriptor stays open until the
   * answer.
   */
  readonly root: WorkDir;
  readonly work:
    | { readonly kind: 'read'; readonly job: ReadJob }
    | { readonly kind: 'range'; readonly job: RangeJob }
    | { readonly kind: 'md5'; readonly job: Pick<ReadJob, 'path'> };
  /** This worker takes no file above the part size: the answer is then `large`. */
  readonly smallOnly: boolean;
  /** The state in an earlier `fresh` answer: if it is unchanged, it has been quiet for long enough. */
  readonly seen: Fingerprint | undefined;
}

/**
 * The messages between the two threads. A worker has one job at a time, and gets the next only after its answer to the
 * last. So messages need no number.
 */
export type ToWorker =
  | { readonly kind: 'job'; readonly request: WorkerRequest }
  /** One more part may be sent. The first needs no credit. */
  | { readonly kind: 'credit' }
  /** A part's memory, which the reader no longer needs. */
  | { readonly kind: 'give-back'; readonly bytes: Uint8Array }
  /** Give the job up. Answered with `cancelled`, unless another answer has been sent. */
  | { readonly kind: 'cancel' }
  | { readonly kind: 'close' };

export type WorkerAnswer =
  | Obstacle
  | { readonly kind: 'unchanged' | 'md5'; readonly md5: string; readonly facts: FileFacts }
  | { readonly kind: 'large' }
  /** It changed so recently that another change could be invisible: ask again after `waitMs`. */
  | { readonly kind: 'fresh'; readonly waitMs: number; readonly facts: FileFacts }
  /** The last part. With `head` it is the only one. */
  | {
      readonly kind: 'end';
      readonly head: BodyHead | undefined;
      readonly bytes: Uint8Array;
      readonly proof: Proof;
    };

export type FromWorker =
  | { readonly kind: 'begin'; readonly head: BodyHead }
  | { readonly kind: 'part'; readonly bytes: Uint8Array }
  /** The last message about a job, like the next two. */
  | { readonly kind: 'answer'; readonly answer: WorkerAnswer }
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'failed'; readonly message: string; readonly code: string | undefined };
