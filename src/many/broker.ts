// Where a worker gets its tasks. The doc comments are the contract. memory-broker.ts implements it for the one array of
// `capture array`, queue/bullmq-worker.ts implements it on Redis, and both pass test/many/broker-contract.ts. All
// methods reject with a {@link BrokerAway} while the tasks cannot be reached, and never wait longer than the call
// itself needs.
import type { SeenSubmission } from '../model/many/choose.ts';
import type { Parsed, QueuedTask } from '../model/many/submission.ts';

/**
 * `lost`: the connection broke. `silent`: the server keeps the connection open and does not answer. `refused`: it
 * answers with an error.
 */
type AwayKind = 'lost' | 'silent' | 'refused';

/**
 * The queue cannot be used now, but may be later. The call may have taken effect all the same. The queue's own code logs
 * it, once while it lasts.
 */
export class BrokerAway extends Error {
  readonly kind: AwayKind;
  readonly hint: string | undefined;

  constructor(why: string, { kind = 'lost', hint }: { kind?: AwayKind; hint?: string } = {}) {
    super(why);
    this.name = 'BrokerAway';
    this.kind = kind;
    this.hint = hint;
  }
}

/** The error in words. A server that answers can be reached. */
export function awayText({ kind, message }: Pick<BrokerAway, 'kind' | 'message'>): string {
  return kind === 'refused'
    ? `the queue answers with an error: ${message}`
    : `the queue cannot be reached: ${message}`;
}

/** A job that we hold the lock of, until the lock expires. */
export interface TakenJob {
  readonly submission: string;
  readonly task: Parsed<QueuedTask>;
  /** How many tries had failed before this one. */
  readonly failedBefore: number;
  /**
   * The key of the index's newest record before this worker began; empty if there was none. Undefined if the queue
   * itself keeps two workers from one index, and for what this worker has run before.
   */
  readonly lastSeen?: string | undefined;
  /** These methods resolve to false if we lost the job: another worker has it, it waits again, or it was removed. */
  done(): Promise<boolean>;
  /** The job is retried behind all others, up to the submission's number of retries, unless `isFinal`. */
  failed(reason: string, isFinal: boolean): Promise<'retried' | 'failed' | 'lost'>;
  /** Puts the job in front of all waiting jobs. This counts as no try. */
  giveBack(): Promise<boolean>;
}

/** A submission, or an entry that cannot be read as one. */
export type Listed =
  | ({ readonly kind: 'submission' } & SeenSubmission)
  | {
      readonly kind: 'unreadable';
      readonly name: string;
      readonly why: string;
      /** What helps. Undefined: the capture that submitted it can read it. */
      readonly hint?: string;
      readonly format: number | undefined;
    };

/** What every worker does with its tasks. */
export interface WorkerBroker {
  /** A lock that is not renewed expires after this time. */
  readonly lockMs: number;
  /** All submissions in the queue, in no particular order. */
  list(): Promise<readonly Listed[]>;
  /** Locks the first waiting job. Undefined if none waits, or the submission is paused. */
  take(submission: string): Promise<TakenJob | undefined>;
  /** Renews the locks of all jobs that we hold. Resolves to the jobs that we lost. */
  renew(held: readonly TakenJob[]): Promise<readonly TakenJob[]>;
}
