// Where the tasks of a worker come from. The doc comments are the contract; memory-broker.ts keeps it for the one array of
// `capture array`, queue/bullmq-worker.ts on Redis, and both pass test/many/broker-contract.ts. All methods reject with a
// {@link BrokerAway} while the tasks cannot be reached, and never wait longer than the call itself needs.
import type { Seen } from '../model/many/choose.ts';
import type { Parsed, QueuedTask } from '../model/many/submission.ts';

/** The queue cannot be reached now; it may later. What was asked for may have happened all the same. */
export class BrokerAway extends Error {
  constructor(why: string) {
    super(why);
    this.name = 'BrokerAway';
  }
}

/** A job that is locked for us, until its lock runs out. */
export interface TakenJob {
  readonly submission: string;
  readonly task: Parsed<QueuedTask>;
  /** How often it had failed before. */
  readonly failedBefore: number;
  /** Each of these resolves to false if the job is no longer ours: another has it, it waits, or it is gone. */
  done(): Promise<boolean>;
  /** Tried again behind all others as often as the submission says, unless `isFinal`. */
  failed(reason: string, isFinal: boolean): Promise<'retried' | 'failed' | 'lost'>;
  /** To the front of those that wait: no try is counted. */
  giveBack(): Promise<boolean>;
}

/** A submission, or what stands in its place and cannot be read. */
export type Listed =
  | ({ readonly kind: 'submission' } & Seen)
  | {
      readonly kind: 'unreadable';
      readonly name: string;
      readonly why: string;
      readonly format: number | undefined;
    };

/** What every worker does with its tasks. */
export interface WorkerBroker {
  /** Without a renewal for so long a lock has run out. */
  readonly lockMs: number;
  /** All submissions that are there, in no order. */
  list(): Promise<readonly Listed[]>;
  /** The first that waits, locked for us; undefined: none, or it is paused. */
  take(submission: string): Promise<TakenJob | undefined>;
  /** Renews the locks of all that we hold. Resolves to those that are no longer ours. */
  renew(held: readonly TakenJob[]): Promise<readonly TakenJob[]>;
}
