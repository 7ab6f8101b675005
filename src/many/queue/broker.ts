// A queue that several workers share: the interface for its workers, and the data that people see. bullmq-worker.ts
// implements it on Redis; unit tests implement it in memory.
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

/** Its worker died: the job waits again once its lock has expired. `workers` are all that are here. */
export function isLost({ worker }: RunningJob, workers: readonly WorkerInfo[] | undefined): boolean {
  return workers !== undefined && worker !== '' && !workers.some(({ name }) => name === worker);
}

export interface FailedJob {
  readonly index: number;
  readonly reason: string;
  readonly atMs: number;
  readonly worker: string;
}

/** A worker that takes nothing of a submission, and the reason, which lies in its machine. */
export interface Unable {
  readonly worker: string;
  readonly why: string;
}

/** An event that exactly one worker reports: the first one that takes it. */
export interface Notice {
  readonly submission: string;
  readonly event: 'all-done' | 'failed';
}

/** A notice that we report. If we die before `told`, another worker reports it. */
export interface TakenNotice {
  readonly notice: Notice;
  told(): Promise<void>;
}

/** Everything that a worker does with a queue, including taking its tasks. */
export interface SharedBroker extends WorkerBroker {
  /** Adds jobs. An index that already has a job keeps it. No worker takes a job before the submission itself is put. */
  add(submission: Submission, tasks: Iterable<QueuedTask>, signal: AbortSignal): Promise<void>;
  /** Adds the submission, or updates the one with this name. */
  put(submission: Submission): Promise<void>;
  /**
   * From now on, jobs of these submissions whose workers died go back to waiting (stalled jobs). Connections to all
   * other submissions are closed, so none of their jobs may be taken or held.
   */
  watch(submissions: ReadonlySet<string>): Promise<void>;
  /** Whether a worker died that held jobs of this submission, and they do not wait again yet. */
  hasLost(submission: string): Promise<boolean>;
  /** Shows on the submission why this worker takes nothing of it. */
  tellUnable(submission: string, why: string): Promise<void>;
  /** A user has asked us to drain. */
  isDrained(): Promise<boolean>;
  /** Queues a notice. It is reported once, even if several workers queue it. */
  tell(notice: Notice): Promise<void>;
  /** Locks the next notice that nobody has reported, in the same way as a task. */
  takeNotice(): Promise<TakenNotice | undefined>;
  close(): Promise<void>;
}
