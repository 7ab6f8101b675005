// The queue on BullMQ: what commands (bullmq-commands.ts) and workers (bullmq-worker.ts) both do with it. A submission is a
// queue of BullMQ, `s.<name>`, that holds a job for each index that is left; the submissions themselves are jobs that nobody
// takes (docs/adr/0015-queue.md).
import { setTimeout as sleep } from 'node:timers/promises';
import type { Job, JobsOptions, Queue } from 'bullmq';
import { reasonOf } from '../../model/errors.ts';
import type { QueueCounts } from '../../model/many/choose.ts';
import { showQueue } from '../../model/many/queue-url.ts';
import { formatOf, jobIdOf, type QueuedTask, type Submission } from '../../model/many/submission.ts';
import { BrokerAway, type Listed } from '../broker.ts';
import type { Notice, SharedQueue, Unable } from './broker.ts';
import { ForeignQueue, prefixOf, queueOf, submissionOf } from './bull-queue.ts';
import type { Connection } from './connect.ts';
import { readSubmission } from './read-submission.ts';

export const SUBMISSIONS = 'submissions';
/** Workers that shall end: a job for each. */
export const DRAINS = 'drains';
/** What is to be told: a job for each. */
export const NOTICES = 'notices';
/** What a call takes at most: a server that hangs must hold up no worker. */
const ANSWER_MS = 10_000;
/** Jobs of one pipeline: some 300 KB. */
export const CHUNK = 1000;
const NOTHING: QueueCounts = { waiting: 0, running: 0, failed: 0 };
const WAITING_STATES = ['wait', 'delayed', 'prioritized'] as const;

export class OnBullMq implements SharedQueue {
  readonly place: string;
  protected readonly connection: Connection;
  readonly #queues = new Map<string, Queue>();

  constructor(connection: Connection) {
    this.connection = connection;
    this.place = showQueue(connection.place);
  }

  async list(): Promise<readonly Listed[]> {
    const jobs = await this.ask(() => this.queue(SUBMISSIONS).getJobs([...WAITING_STATES], 0, -1));
    return Promise.all(jobs.filter((job) => job !== undefined).map((job) => this.#listed(job)));
  }

  async #listed({ id = '', data }: Job): Promise<Listed> {
    const found = readSubmission(data);
    if ('why' in found)
      return { kind: 'unreadable', name: submissionOf(id), why: found.why, format: formatOf(data) };
    const { value: submission } = found;
    // Of one that is over nothing is there.
    const counts = submission.overMs === undefined ? await this.counts(submission.name) : NOTHING;
    return { kind: 'submission', submission, counts };
  }

  async put(submission: Submission): Promise<void> {
    await this.ask(async () => {
      const queue = this.queue(SUBMISSIONS);
      const job = await queue.getJob(queueOf(submission.name));
      if (job === undefined) await queue.add('submission', submission, { jobId: queueOf(submission.name) });
      else await job.updateData(submission);
    });
  }

  async add(submission: Submission, tasks: Iterable<QueuedTask>, signal: AbortSignal): Promise<void> {
    const queue = this.queue(queueOf(submission.name));
    for (const chunk of chunksOf(tasks)) {
      signal.throwIfAborted();
      const jobs = chunk.map((data) => ({
        name: `index ${data.index}`,
        data,
        opts: optionsOf(data, submission),
      }));
      await this.ask(() => queue.addBulk(jobs));
    }
  }

  async counts(name: string): Promise<QueueCounts> {
    const counts = await this.ask(() =>
      this.queue(queueOf(name)).getJobCounts(...WAITING_STATES, 'active', 'failed'),
    );
    const of = (state: string): number => counts[state] ?? 0;
    const waiting = WAITING_STATES.reduce((sum, state) => sum + of(state), 0);
    return { waiting, running: of('active'), failed: of('failed') };
  }

  async close(): Promise<void> {
    for (const queue of this.#queues.values()) await queue.close().catch(() => undefined);
    await this.connection.close();
  }

  protected queue(name: string): Queue {
    const found = this.#queues.get(name);
    if (found !== undefined) return found;
    const { redis } = this.connection;
    const queue = new ForeignQueue(name, { connection: redis, prefix: prefixOf(this.connection) });
    // The connection says it, once for all.
    queue.on('error', () => undefined);
    this.#queues.set(name, queue);
    return queue;
  }

  protected async forgetQueue(name: string): Promise<void> {
    const queue = this.#queues.get(name);
    this.#queues.delete(name);
    await queue?.close();
  }

  /** Every call to the server goes through here. Rejects with a {@link BrokerAway} if it cannot be reached. */
  protected async ask<T>(act: () => Promise<T>): Promise<T> {
    const why = this.connection.away();
    if (why !== undefined) throw new BrokerAway(why);
    const timeout = new AbortController();
    const late = sleep(ANSWER_MS, undefined, timeout).then(() => {
      throw new BrokerAway(`no answer within ${ANSWER_MS / 1000} s`);
    });
    late.catch(() => undefined);
    try {
      return await Promise.race([act(), late]);
    } catch (error) {
      throw isAway(error) ? new BrokerAway(reasonOf(error)) : error;
    } finally {
      timeout.abort();
    }
  }
}

/** The server is starting, full, or read-only, or the connection broke: all of that passes. */
function isAway(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof BrokerAway) return false;
  return (
    error.name === 'ReplyError' ||
    /connection|ECONN|EPIPE|ETIMEDOUT|LOADING|READONLY|OOM/i.test(error.message)
  );
}

function optionsOf({ index }: QueuedTask, { retries }: Submission): JobsOptions {
  return {
    jobId: jobIdOf(index),
    attempts: retries + 1,
    // What is done the store knows.
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

/** A line of the log of a submission's job. */
export function unableLine({ worker, why }: Unable): string {
  return `${worker}: ${why}`;
}

export function unableOf(line: string): Unable {
  const end = line.indexOf(': ');
  return { worker: line.slice(0, end), why: line.slice(end + 2) };
}

export function noticeId(submission: string, event: Notice['event']): string {
  return `${submission}.${event}`;
}
