// What a worker is asked for and what it answers: the words that the upload and both sides of the thread border share.
import type { Piece } from '../model/checkpoint/companions.ts';
import type { FileFacts, Fingerprint } from '../model/file/file-state.ts';
import { type RelPath, showPath } from '../model/path.ts';
import type { WorkDir } from '../native/beneath.ts';

/** How the bytes of one job are compressed. */
export type JobCompression =
  | {
      readonly kind: 'zstd';
      readonly level: number;
      /** A file of more than one part gets the level that is best for a link of this rate (`--compression zstd:auto`). */
      readonly linkBytesPerS?: number | undefined;
    }
  | { readonly kind: 'none' };

/** A state of a file that an open descriptor of this process keeps: its name may be gone, or lead elsewhere. */
export interface HeldState {
  readonly fd: number;
  readonly facts: FileFacts;
}

export interface ReadJob {
  readonly path: RelPath;
  /** Any other state of the file is not wanted: the answer is then `moved`. */
  readonly expected?: Fingerprint;
  /** Read this open file, whatever stands at the path by now; it stays open until the answer. */
  readonly held?: HeldState | undefined;
  /** The state is wanted even if its name goes while it is read: unlinked, or replaced by a rename. */
  readonly outlivesName?: boolean;
  readonly compression: JobCompression;
  /** Content that is known to be stored: a file that equals it is `unchanged` and gives no body. */
  readonly baseline?: { readonly md5: string; readonly size: number };
  /** Copy a file of more than one part to the spool and prove that first. */
  readonly spoolFirst: boolean;
  /** Read before all that waits and is not. */
  readonly urgent?: boolean;
}

/** The end of a file that is being appended to: its bytes up to `end` are taken to stay as they are. */
export interface RangeJob {
  readonly path: RelPath;
  /** The file itself, whatever has been renamed to its path since. */
  readonly file: Pick<Fingerprint, 'dev' | 'ino'>;
  /** From the start on without a gap: the range begins after the last that the file still holds. */
  readonly known: readonly Piece[];
  /** If the file still holds this piece, the known ones are not looked at. */
  readonly tail: Piece | undefined;
  /** One past the last byte of the range. */
  readonly end: number;
  readonly compression: JobCompression;
}

/**
 * Why there is nothing to send. `writer`: somebody has it open for writing. `gone`: there is no such file.
 * `moved`: it changed while it was read, or is not the expected one. `refused`: it is not ours to read.
 */
export type Obstacle =
  | { readonly kind: 'writer' | 'gone' | 'moved' }
  | { readonly kind: 'refused'; readonly why: string };

/** The proof of a whole reading. `storedBytes` is what was given out, compressed or not. */
export interface Proof {
  readonly md5: string;
  readonly facts: FileFacts;
  readonly storedBytes: number;
  /** Of a range: the bytes before its end, by which it is recognised the next time. */
  readonly tail?: Piece;
}

/** What is known about a body before its first byte leaves. */
export interface BodyHead {
  readonly facts: FileFacts;
  /** Plain zstd frames; false where compression was not asked for or gains too little. */
  readonly compressed: boolean;
  /** Given when the whole file has been read already. */
  readonly md5?: string;
  /** `full`: the spool was asked for and had no room, or could not be used; the body is read as it goes. */
  readonly spool: 'unused' | 'used' | 'full';
  /** Of a range: its first byte. */
  readonly first?: number;
}

export interface PartIterator extends AsyncIterableIterator<Uint8Array> {
  /**
   * Gives a part's memory back, to be used again. `return()` does so for all parts: whoever reads must call it when
   * nothing is done with them any more.
   */
  release(part: Uint8Array): void;
}

export interface Body extends BodyHead {
  readonly kind: 'body';
  /**
   * Parts of one size, a smaller last one; at least one, which may be empty. A part is the reader's own until
   * it releases it, or ends them all with `return()`. The last is held back until the file is proven unchanged: where it is not,
   * SnapshotMoved is thrown instead. Must be read to its end or given up with `return()`: until then it
   * occupies a worker, unless it is of one part.
   */
  readonly parts: PartIterator;
  /** All that `parts` gives, where it is one part that is proven already. */
  readonly whole?: Uint8Array;
  /** Resolves with the last part; rejects with what `parts` throws. It need not be awaited. */
  readonly done: Promise<Proof>;
}

export interface WholeBody extends BodyHead {
  readonly bytes: Uint8Array;
  readonly proof: Proof;
  /** Called once, when the reader is done with the bytes. */
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

/** The file was changed while it was being read: what was read so far is of no single moment. */
export class SnapshotMoved extends Error {
  /** A writer has it open: its next close will tell. Without one, trying again is the only way. */
  readonly hasWriter: boolean;

  constructor(path: RelPath, hasWriter: boolean) {
    super(`${showPath(path)} was changed while it was being read`);
    this.name = 'SnapshotMoved';
    this.hasWriter = hasWriter;
  }
}

export type CompressorName = 'zstd-napi' | 'zlib' | 'none';

/** What every job of a worker needs. */
export interface WorkerData {
  readonly spool: { readonly dir: string; readonly limitBytes: number } | undefined;
}

export interface WorkerRequest {
  /** Where its file is: the jobs of one worker may be of several tasks. Its descriptor is open until the answer. */
  readonly root: WorkDir;
  readonly work:
    | { readonly kind: 'read'; readonly job: ReadJob }
    | { readonly kind: 'range'; readonly job: RangeJob }
    | { readonly kind: 'md5'; readonly job: Pick<ReadJob, 'path'> };
  /** A file above the part size is not wanted in this worker: the answer is then `large`. */
  readonly smallOnly: boolean;
  /** The state that a `fresh` answer named: when it still stands, it has been quiet for long enough. */
  readonly seen: Fingerprint | undefined;
}

/**
 * The messages of the two threads. A worker has one job at a time, and the next is sent only after the answer to the
 * last: so no message carries a number.
 */
export type ToWorker =
  | { readonly kind: 'job'; readonly request: WorkerRequest }
  /** One more part may be sent. The first needs none. */
  | { readonly kind: 'credit' }
  /** A part's memory, which the reader no longer needs. */
  | { readonly kind: 'give-back'; readonly bytes: Uint8Array }
  /** Give the job up; answered with `cancelled`, unless its answer is under way. */
  | { readonly kind: 'cancel' }
  | { readonly kind: 'close' };

export type WorkerAnswer =
  | Obstacle
  | { readonly kind: 'unchanged' | 'md5'; readonly md5: string; readonly facts: FileFacts }
  | { readonly kind: 'large' }
  /** Changed so lately that a further change could go unseen: to be asked for again after `waitMs`. */
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
  /** The last message about a job, as are the next two. */
  | { readonly kind: 'answer'; readonly answer: WorkerAnswer }
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'failed'; readonly message: string; readonly code: string | undefined };
