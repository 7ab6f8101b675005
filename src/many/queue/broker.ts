// A queue that several workers share, as its workers know it, and what people see of it. bullmq-worker.ts keeps it on Redis, unit
// tests in memory.
import type { QueuedTask, Submission } from '../../model/many/submission.ts';
import type { WorkerBroker } from '../broker.ts';

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

/** What a worker of a queue does with it beside taking its tasks. */
export interface SharedBroker extends WorkerBroker {
  /** Adds jobs; an index that has one already keeps it. Nobody takes one before the submission itself is put. */
  add(submission: Submission, tasks: Iterable<QueuedTask>, signal: AbortSignal): Promise<void>;
  /** Adds the submission itself, or changes it if one of this name is there. */
  put(submission: Submission): Promise<void>;
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
  close(): Promise<void>;
}
