// A worker's view of a queue on BullMQ: takes jobs, renews their locks, and reports how they ended. It fetches jobs
// manually, because it must know first whether a task fits.
import { randomUUID } from 'node:crypto';
import { type Job, UnrecoverableError, type Worker } from 'bullmq';
import type { Log } from '../../log/log.ts';
import { type Parsed, parseQueuedTask, type QueuedTask } from '../../model/many/submission.ts';
import { clockMs } from '../../native/clock.ts';
import { awayText, BrokerAway, type TakenJob } from '../broker.ts';
import { answerOf } from './answer.ts';
import { isLost, type Notice, type SharedBroker, type TakenNotice } from './broker.ts';
import { ForeignWorker, prefixOf, queueOf, whyUnread } from './bull-queue.ts';
import {
  BullMqQueue,
  DRAINS,
  MOST_RUNNING,
  noticeId,
  NOTICES,
  shownName,
  SUBMISSIONS,
  unableLine,
} from './bullmq.ts';
import type { Connection } from './connect.ts';

/** maxStalledCount: the limit is --max-attempts, which the store counts. */
const ANY_NUMBER = 2 ** 30;
/** Kept for so long that an event is reported once, however late the last worker comes. */
const NOTICES_KEPT_S = 30 * 86_400;

/** Entries of one submission; the newest are kept. */
const UNABLE_KEPT = 1000;

/** An error that has not come again for this time is over: the next one is logged. */
const SAID_FOR_MS = 60_000;

interface WorkerOptions {
  /** `node3.4711` */
  readonly name: string;
  readonly capabilities: readonly string[];
  /** A worker that does not renew its locks for this time has lost its jobs. */
  readonly lockMs: number;
  readonly log: Pick<Log, 'warn'>;
}

/** From now on other clients see this worker. */
export function openWorkerBroker(connection: Connection, us: WorkerOptions): SharedBroker {
  const broker = new ForWorker(connection, us);
  broker.announce();
  return broker;
}

class ForWorker extends BullMqQueue implements SharedBroker {
  readonly lockMs: number;
  readonly #us: WorkerOptions;
  readonly #workers = new Map<string, Worker>();
  /** When an error came last, by its code, such as NOPERM (its text also names the command). */
  readonly #saidMs = new Map<string, number>();

  constructor(connection: Connection, us: WorkerOptions) {
    super(connection);
    this.lockMs = us.lockMs;
    this.#us = us;
  }

  /**
   * This BullMQ worker fetches nothing. Its name in the client list shows that we are here, and what our capabilities
   * are.
   */
  announce(): void {
    this.#openWorker(SUBMISSIONS, shownName(this.#us));
  }

  async isDrained(): Promise<boolean> {
    const { name } = this.#us;
    return (await this.ask(() => this.queue(DRAINS).getJob(name))) !== undefined;
  }

  async take(submission: string): Promise<TakenJob | undefined> {
    const worker = await this.#fetching(queueOf(submission));
    const token = randomUUID();
    const job = await this.ask(() => worker.getNextJob(token, { block: false }));
    return job === undefined ? undefined : new TakenOnBullMq(submission, job, (act) => this.ask(act));
  }

  async renew(held: readonly TakenJob[]): Promise<readonly TakenJob[]> {
    const lost: TakenJob[] = [];
    const jobs = held.filter((job) => job instanceof TakenOnBullMq);
    for (const name of new Set(jobs.map(({ submission }) => submission))) {
      const worker = this.#workers.get(queueOf(name));
      const ours = jobs.filter(({ submission }) => submission === name);
      if (worker === undefined) continue;
      const [ids, tokens] = [ours.map(({ id }) => id), ours.map(({ token }) => token)];
      const failed = await this.ask(() => worker.extendJobLocks(ids, tokens, this.lockMs));
      lost.push(...ours.filter(({ id }) => failed.includes(id)));
    }
    return lost;
  }

  async watch(submissions: ReadonlySet<string>): Promise<void> {
    const watched = [...submissions].map(queueOf);
    for (const name of watched) await this.#fetching(name);
    const keep = new Set([SUBMISSIONS, NOTICES, ...watched]);
    const left = [...this.#workers].filter(([name]) => !keep.has(name));
    for (const [name, worker] of left) {
      this.#workers.delete(name);
      await this.ask(() => worker.close(true));
    }
  }

  async hasLost(submission: string): Promise<boolean> {
    const [running, workers] = [await this.running(submission, MOST_RUNNING), await this.workers()];
    return running.some((job) => isLost(job, workers));
  }

  async tellUnable(submission: string, why: string): Promise<void> {
    const line = unableLine({ worker: this.#us.name, why });
    // The submission may have been removed in the meantime.
    await ours(() =>
      this.ask(() => this.queue(SUBMISSIONS).addJobLog(queueOf(submission), line, UNABLE_KEPT)),
    );
  }

  async tell({ submission, event }: Notice): Promise<void> {
    // A notice with the same id stays as it is.
    const options = { jobId: noticeId(submission, event), removeOnComplete: { age: NOTICES_KEPT_S } };
    await this.ask(() => this.queue(NOTICES).add(event, { submission, event }, options));
  }

  async takeNotice(): Promise<TakenNotice | undefined> {
    const worker = await this.#fetching(NOTICES);
    const token = randomUUID();
    const job = await this.ask(() => worker.getNextJob(token, { block: false }));
    if (job === undefined) return undefined;
    const told = async (): Promise<void> => {
      await ours(() => this.ask(() => job.moveToCompleted(true, token, false)));
    };
    // Accepts any content: an unknown submission name does no harm.
    const { submission, event } = { ...(job.data as Notice | null | undefined) };
    return {
      notice: { submission: String(submission), event: event === 'failed' ? event : 'all-done' },
      told,
    };
  }

  override async close(): Promise<void> {
    const { name } = this.#us;
    await this.ask(() => this.queue(DRAINS).remove(name)).catch(() => undefined);
    const workers = [...this.#workers.values()];
    await answerOf(() => Promise.allSettled(workers.map((one) => one.close(true)))).catch(() => undefined);
    await super.close();
  }

  /** Logs, once while it lasts, what the connection cannot notice: a server that is silent, or answers with an error. */
  protected override async ask<T>(act: () => Promise<T>): Promise<T> {
    try {
      return await super.ask(act);
    } catch (error) {
      if (error instanceof BrokerAway && error.kind !== 'lost') this.#say(error);
      throw error;
    }
  }

  #say(error: BrokerAway): void {
    const nowMs = clockMs();
    const [code = ''] = error.message.split(' ');
    const isSaid = nowMs - (this.#saidMs.get(code) ?? -Infinity) < SAID_FOR_MS;
    this.#saidMs.set(code, nowMs);
    if (!isSaid) this.#us.log.warn(awayText(error), { hint: error.hint });
  }

  /** The BullMQ worker of one submission. While it is open, it moves stalled jobs back to waiting. */
  async #fetching(name: string): Promise<Worker> {
    const worker = this.#workers.get(name) ?? this.#openWorker(name, this.#us.name);
    await this.ask(() => worker.startStalledCheckTimer());
    return worker;
  }

  #openWorker(queue: string, name: string): Worker {
    const { lockMs } = this;
    // Without a processor, because jobs are fetched manually.
    const worker = new ForeignWorker(queue, undefined, {
      connection: this.connection.redis,
      prefix: prefixOf(this.connection),
      name,
      autorun: false,
      lockDuration: lockMs,
      stalledInterval: lockMs / 2,
      maxStalledCount: ANY_NUMBER,
    });
    worker.on('error', () => undefined);
    this.#workers.set(queue, worker);
    return worker;
  }
}

/** A job that BullMQ has locked for us. */
class TakenOnBullMq implements TakenJob {
  readonly submission: string;
  readonly id: string;
  readonly token: string;
  readonly task: Parsed<QueuedTask>;
  readonly failedBefore: number;
  readonly #job: Job;
  readonly #ask: <T>(act: () => Promise<T>) => Promise<T>;

  constructor(submission: string, job: Job, ask: <T>(act: () => Promise<T>) => Promise<T>) {
    this.submission = submission;
    this.#job = job;
    this.#ask = ask;
    this.id = job.id ?? '';
    this.token = job.token ?? '';
    const why = whyUnread(job);
    this.task = why === undefined ? parseQueuedTask(job.data) : { why };
    this.failedBefore = job.attemptsMade;
  }

  done(): Promise<boolean> {
    return ours(() => this.#ask(() => this.#job.moveToCompleted(true, this.token, false)));
  }

  async failed(reason: string, isFinal: boolean): Promise<'retried' | 'failed' | 'lost'> {
    const error = isFinal ? new UnrecoverableError(reason) : new Error(reason);
    const willRetry = !isFinal && this.failedBefore + 1 < (this.#job.opts.attempts ?? 1);
    const isOurs = await ours(() => this.#ask(() => this.#job.moveToFailed(error, this.token, false)));
    if (!isOurs) return 'lost';
    return willRetry ? 'retried' : 'failed';
  }

  giveBack(): Promise<boolean> {
    return ours(() => this.#ask(() => this.#job.moveToWait(this.token)));
  }
}

/** Codes with which BullMQ reports that we lost the job (BullMQ, ErrorCode). */
const NOT_OURS: ReadonlySet<unknown> = new Set([-1, -2, -3, -6]);

async function ours(act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && NOT_OURS.has(error.code)) return false;
    throw error;
  }
}
