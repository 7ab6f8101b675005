// The queue on BullMQ, as commands use it; bullmq-worker.ts adds what workers need. A submission is a BullMQ queue,
// `s.<name>`, with a job for each index that is left. The submissions themselves are jobs that nobody takes
// (docs/dev/adr/0015-queue.md).
import type { Job, JobsOptions, Queue } from 'bullmq';
import type { QueueCounts } from '../../model/many/choose.ts';
import { showQueue } from '../../model/many/queue-url.ts';
import {
  formatOf,
  indexOfJob,
  jobIdOf,
  parseQueuedTask,
  type QueuedTask,
  type Submission,
} from '../../model/many/submission.ts';
import { clockMs } from '../../native/clock.ts';
import { BrokerAway, type Listed } from '../broker.ts';
import { answerOf, isWrongType, WRONG_TYPE_HINT } from './answer.ts';
import type { FailedJob, Notice, RunningJob, Unable, WorkerInfo } from './broker.ts';
import { ForeignQueue, prefixOf, queueOf, submissionOf, WRONG_TYPE, whyUnread } from './bull-queue.ts';
import type { Connection } from './connect.ts';
import { isTooLarge, refuseTooLarge, TOO_LARGE } from './job-size.ts';
import { readSubmission } from './read-submission.ts';

export const SUBMISSIONS = 'submissions';
/** The queue of drain requests: a job for each worker that is to end. */
export const DRAINS = 'drains';
/** The queue of notices: a job for each. */
export const NOTICES = 'notices';
/** More running jobs of one submission are not looked at. */
export const MOST_RUNNING = 1000;
/** Jobs of one pipeline: about 300 KB. */
const CHUNK = 1000;
const EVENTS: readonly Notice['event'][] = ['all-done', 'failed'];
const NOTHING: QueueCounts = { waiting: 0, running: 0, failed: 0 };
const WAITING_STATES = ['wait', 'delayed', 'prioritized'] as const;

/** All methods reject with a {@link BrokerAway} while the server cannot be used. */
export class BullMqQueue {
  /** For messages; contains no secret. */
  readonly place: string;
  protected readonly connection: Connection;
  readonly #queues = new Map<string, Queue>();

  constructor(connection: Connection) {
    this.connection = connection;
    this.place = showQueue(connection.place);
  }

  /** All submissions in the queue, in no particular order. */
  async list(): Promise<readonly Listed[]> {
    const jobs = await this.ask(() => this.queue(SUBMISSIONS).getJobs([...WAITING_STATES], 0, -1));
    return Promise.all(jobs.filter((job) => job !== undefined).map((job) => this.#listed(job)));
  }

  async #listed(job: Job): Promise<Listed> {
    const { id = '', data } = job;
    const name = submissionOf(id);
    const broken = {
      kind: 'unreadable',
      name,
      why: WRONG_TYPE,
      hint: WRONG_TYPE_HINT,
      format: undefined,
    } as const;
    const unread = whyUnread(job);
    if (unread === WRONG_TYPE) return broken;
    if (unread === TOO_LARGE) return { kind: 'unreadable', name, why: TOO_LARGE, format: undefined };
    const found = readSubmission(data);
    if ('why' in found) return { kind: 'unreadable', name, why: found.why, format: formatOf(data) };
    const { value: submission } = found;
    // A submission that is over has no jobs.
    if (submission.overMs !== undefined) return { kind: 'submission', submission, counts: NOTHING };
    // A broken key of one submission must not hide the others.
    const counts = await this.ask(() =>
      this.#counts(submission.name).catch((error: unknown) => {
        if (!isWrongType(error)) throw error;
        return undefined;
      }),
    );
    return counts === undefined ? broken : { kind: 'submission', submission, counts };
  }

  /** Adds the submission, or updates the one with this name. */
  async put(submission: Submission): Promise<void> {
    refuseTooLarge('the submission', submission);
    await this.ask(async () => {
      const queue = this.queue(SUBMISSIONS);
      const job = await queue.getJob(queueOf(submission.name));
      if (job === undefined) await queue.add('submission', submission, { jobId: queueOf(submission.name) });
      else await job.updateData(submission);
    });
  }

  /** Adds jobs. An index that already has a job keeps it. No worker takes a job before the submission itself is put. */
  async add(submission: Submission, tasks: Iterable<QueuedTask>, signal: AbortSignal): Promise<void> {
    const queue = this.queue(queueOf(submission.name));
    for (const chunk of chunksOf(tasks)) {
      signal.throwIfAborted();
      for (const data of chunk) refuseTooLarge(`the task of index ${data.index}`, data);
      const jobs = chunk.map((data) => ({
        name: `index ${data.index}`,
        data,
        opts: optionsOf(data, submission),
      }));
      await this.ask(() => queue.addBulk(jobs));
    }
  }

  counts(name: string): Promise<QueueCounts> {
    return this.ask(() => this.#counts(name));
  }

  async #counts(name: string): Promise<QueueCounts> {
    const counts = await this.queue(queueOf(name)).getJobCounts(...WAITING_STATES, 'active', 'failed');
    const of = (state: string): number => counts[state] ?? 0;
    const waiting = WAITING_STATES.reduce((sum, state) => sum + of(state), 0);
    return { waiting, running: of('active'), failed: of('failed') };
  }

  async running(name: string, most: number): Promise<readonly RunningJob[]> {
    const jobs = await this.ask(() => this.queue(queueOf(name)).getActive(0, most - 1));
    return jobs.flatMap(({ data, processedBy = '', processedOn = 0 }) => {
      const found = parseQueuedTask(data);
      if ('why' in found) return [];
      return [{ submission: name, index: found.value.index, worker: processedBy, sinceMs: processedOn }];
    });
  }

  /** Failed jobs, newest first. */
  async failed(name: string, most: number): Promise<readonly FailedJob[]> {
    const jobs = await this.ask(() => this.queue(queueOf(name)).getFailed(0, most - 1));
    return jobs.flatMap(({ id, data, failedReason, finishedOn = 0, processedBy = '' }) => {
      const found = parseQueuedTask(data);
      const index = 'why' in found ? indexOfJob(id) : found.value.index;
      if (index === undefined) return [];
      return [{ index, reason: failedReason, atMs: finishedOn, worker: processedBy }];
    });
  }

  /** The reasons that workers gave for this submission, including workers that have ended since. */
  async unable(name: string): Promise<readonly Unable[]> {
    return this.ask(async () => {
      const queue = this.queue(SUBMISSIONS);
      // No worker has written so much.
      if (await isTooLarge(this.connection.redis, queue.toKey(`${queueOf(name)}:logs`))) return [];
      // Undefined if the key has another type.
      const answer: { readonly logs?: readonly string[] } = await queue.getJobLogs(queueOf(name));
      return answer.logs?.map(unableOf) ?? [];
    });
  }

  /** Undefined if the server does not list its clients (CLIENT LIST is forbidden). */
  async workers(): Promise<readonly WorkerInfo[] | undefined> {
    const clients = await this.ask(() => this.queue(SUBMISSIONS).getWorkers());
    // BullMQ returns entries without names if the server forbids CLIENT LIST.
    if (clients.some(({ rawname }) => rawname === undefined)) return undefined;
    const found = clients.map(({ rawname = '' }) => workerOf(rawname));
    return [...new Map(found.map((one) => [one.name, one])).values()];
  }

  async dropWaiting(name: string): Promise<void> {
    await this.ask(() => this.queue(queueOf(name)).drain(true));
  }

  /** Removes the submission and all its jobs. */
  async remove(name: string): Promise<void> {
    await this.ask(() => this.queue(queueOf(name)).obliterate({ force: true }));
    await this.ask(() => this.queue(SUBMISSIONS).remove(queueOf(name)));
    for (const event of EVENTS) await this.ask(() => this.queue(NOTICES).remove(noticeId(name, event)));
    const queue = this.#queues.get(queueOf(name));
    this.#queues.delete(queueOf(name));
    await this.ask(async () => queue?.close());
  }

  /** Moves all failed jobs back to waiting. */
  async retry(name: string): Promise<void> {
    await this.ask(() => this.queue(queueOf(name)).retryJobs({ state: 'failed', count: CHUNK }));
  }

  /** The worker takes no more jobs, and ends when its running tasks have ended. */
  async drain(worker: string): Promise<void> {
    await this.ask(() => this.queue(DRAINS).add('drain', { atMs: clockMs() }, { jobId: worker }));
  }

  /** What is left of the connection ends with the process. */
  async close(): Promise<void> {
    const queues = [...this.#queues.values()];
    await answerOf(() => Promise.allSettled(queues.map((queue) => queue.close()))).catch(() => undefined);
    await this.connection.close();
  }

  protected queue(name: string): Queue {
    const found = this.#queues.get(name);
    if (found !== undefined) return found;
    const { redis } = this.connection;
    const queue = new ForeignQueue(name, { connection: redis, prefix: prefixOf(this.connection) });
    // The connection logs its errors itself, once for all queues.
    queue.on('error', () => undefined);
    this.#queues.set(name, queue);
    return queue;
  }

  /**
   * Wraps every call to the server. Rejects with a {@link BrokerAway} if the server cannot be reached, does not answer
   * in time, or answers with an error.
   */
  protected async ask<T>(act: () => Promise<T>): Promise<T> {
    const why = this.connection.away();
    if (why !== undefined) throw new BrokerAway(why);
    return answerOf(act);
  }
}

function optionsOf({ index }: QueuedTask, { retries }: Submission): JobsOptions {
  return {
    jobId: jobIdOf(index),
    attempts: retries + 1,
    // The store knows what is done.
    removeOnComplete: true,
    removeOnFail: false,
    stackTraceLimit: 0,
  };
}

function* chunksOf(tasks: Iterable<QueuedTask>): Generator<readonly QueuedTask[]> {
  let chunk: QueuedTask[] = [];
  for (const task of tasks) {
    chunk.push(task);
    if (chunk.length < CHUNK) continue;
    yield chunk;
    chunk = [];
  }
  if (chunk.length > 0) yield chunk;
}

/** A line in the log of a submission's job. */
export function unableLine({ worker, why }: Unable): string {
  return `${worker}: ${why}`;
}

function unableOf(line: string): Unable {
  const end = line.indexOf(': ');
  return { worker: line.slice(0, end), why: line.slice(end + 2) };
}

export function noticeId(submission: string, event: Notice['event']): string {
  return `${submission}.${event}`;
}

/** A client's name has no spaces (redis.io, "CLIENT SETNAME"). */
export function shownName({ name, capabilities }: WorkerInfo): string {
  return `${name};${capabilities.join(',')}`;
}

/** Parses `capture:lab:c3VibWlzc2lvbnM=:w:node3.4711;gpu`. */
function workerOf(rawName: string): WorkerInfo {
  const [name = '', capabilities = ''] = rawName.slice(rawName.indexOf(':w:') + ':w:'.length).split(';');
  return { name, capabilities: capabilities.split(',').filter((one) => one !== '') };
}
