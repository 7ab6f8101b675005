// What the rest of this room knows of a queue engine. The doc comments are the contract; bullmq.ts keeps it on Redis, and
// unit tests keep it in memory. All methods reject with a {@link BrokerAway} while the engine cannot be reached, and never
// wait for it longer than the call itself needs.
import type { QueueCounts, Seen } from '../../model/many/choose.ts';
import type { QueuedTask, Submission } from '../../model/many/submission.ts';

/** The engine cannot be reached now; it may later. What was asked for may have happened all the same. */
export class BrokerAway extends Error {
  constructor(why: string) {
    super(why);
    this.name = 'BrokerAway';
  }
}

/** A job that is locked for us, until its lock runs out. */
export interface TakenJob {
  readonly submission: string;
  /** As it stands there: not validated. */
  readonly data: unknown;
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

export interface WorkerInfo {
  readonly name: string;
  readonly capabilities: readonly string[];
}

export interface RunningJob {
  readonly submission: string;
  readonly index: number;
  readonly worker: string;
  readonly sinceMs: number;
}

export interface FailedJob {
  readonly index: number;
  readonly reason: string;
  readonly atMs: number;
  readonly worker: string;
}

/** A worker that takes nothing of a submission, and why: something of its machine. */
export interface Unable {
  readonly worker: string;
  readonly why: string;
}

/** What is to be told once, by whichever worker comes first. */
export interface Notice {
  readonly submission: string;
  readonly event: 'all-done' | 'failed';
}

/** One that we tell. If we die before `told`, another worker tells it. */
export interface TakenNotice {
  readonly notice: Notice;
  told(): Promise<void>;
}

/** What both sides do. */
export interface Broker {
  /** Of the queue, for messages; carries no secret. */
  readonly place: string;
  /** All that are there, in no order. */
  list(): Promise<readonly Listed[]>;
  /** Adds jobs; an index that has one already keeps it. Nobody takes one before the submission itself is put. */
  add(submission: Submission, tasks: Iterable<QueuedTask>, signal: AbortSignal): Promise<void>;
  /** Adds the submission itself, or changes it if one of this name is there. */
  put(submission: Submission): Promise<void>;
  counts(name: string): Promise<QueueCounts>;
  close(): Promise<void>;
}

/** What people do with it. */
export interface QueueBroker extends Broker {
  running(name: string, most: number): Promise<readonly RunningJob[]>;
  /** The newest first. */
  failed(name: string, most: number): Promise<readonly FailedJob[]>;
  /** What workers have said of this submission, also those that have ended meanwhile. */
  unable(name: string): Promise<readonly Unable[]>;
  /** Undefined if the server does not tell its clients (CLIENT LIST is forbidden). */
  workers(): Promise<readonly WorkerInfo[] | undefined>;
  /** Removes what waits. */
  dropWaiting(name: string): Promise<void>;
  /** Removes all of it, also the submission. */
  remove(name: string): Promise<void>;
  /** Those that have failed wait again. */
  retry(name: string): Promise<void>;
  /** The worker takes nothing more, and ends when what it runs has ended. */
  drain(worker: string): Promise<void>;
}

/** What a worker does with it. */
export interface WorkerBroker extends Broker {
  /** The first that waits, locked for us; undefined: none, or it is paused. */
  take(submission: string): Promise<TakenJob | undefined>;
  /** Renews the locks of all that we hold. Resolves to those that are no longer ours. */
  renew(held: readonly TakenJob[]): Promise<readonly TakenJob[]>;
  /**
   * From now on sees to it that what workers held when they died waits again, of these submissions. What is kept open for
   * others is closed: nothing of them may be taken or held.
   */
  watch(submissions: ReadonlySet<string>): Promise<void>;
  /** Shows those who look at the submission why this worker takes nothing of it. */
  tellUnable(submission: string, why: string): Promise<void>;
  /** Somebody has asked us to drain. */
  isDrained(): Promise<boolean>;
  /** To be told once, however many workers say so. */
  tell(notice: Notice): Promise<void>;
  /** The next that nobody has told, locked as a task is. */
  takeNotice(): Promise<TakenNotice | undefined>;
}
