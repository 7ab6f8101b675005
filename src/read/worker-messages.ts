// The typed messages between the main thread and a worker. A worker has one job at a time, and the next is sent
// only after the answer to the last: so no message carries a number.
import type { FileFacts, Fingerprint } from '../model/file/fingerprint.ts';
import type { RelPath } from '../model/path.ts';
import type { WorkDir } from '../native/work-dir.ts';
import type { BodyHead, Bytes, Obstacle, Proof, RangeJob, ReadJob } from './reading.ts';

export type CompressorName = 'zstd-napi' | 'zlib' | 'none';

/** What every job of a worker needs. */
export interface WorkerData {
  readonly root: WorkDir;
  readonly spool: { readonly dir: string; readonly limitBytes: number } | undefined;
}

export interface WorkerRequest {
  readonly work:
    | { readonly kind: 'read'; readonly job: ReadJob }
    | { readonly kind: 'range'; readonly job: RangeJob }
    | { readonly kind: 'md5'; readonly path: RelPath };
  /** A file above the part size is not wanted in this worker: the answer is then `large`. */
  readonly smallOnly: boolean;
  /** The state that a `fresh` answer named: when it still stands, it has been quiet for long enough. */
  readonly seen: Fingerprint | undefined;
}

export type ToLane =
  | { readonly kind: 'job'; readonly request: WorkerRequest }
  /** One more part may be sent. The first needs none. */
  | { readonly kind: 'credit' }
  /** A part's memory, which the reader no longer needs. */
  | { readonly kind: 'give-back'; readonly bytes: Bytes }
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
      readonly bytes: Bytes;
      readonly proof: Proof;
    };

export type FromLane =
  | { readonly kind: 'hello'; readonly compressor: CompressorName }
  | { readonly kind: 'begin'; readonly head: BodyHead }
  | { readonly kind: 'part'; readonly bytes: Bytes }
  /** The last message about a job, as are the next two. */
  | { readonly kind: 'answer'; readonly answer: WorkerAnswer }
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'failed'; readonly message: string; readonly code: string | undefined };
