// A queue engine in memory, with the promises of broker.ts: what is taken is locked until it is ended, and the test says when
// the engine is away or a lock has run out.
import type { Seen } from '../../../src/model/many/choose.ts';
import type { QueuedTask, Submission } from '../../../src/model/many/submission.ts';
import {
  BrokerAway,
  type Listed,
  type Notice,
  type TakenJob,
  type TakenNotice,
  type WorkerBroker,
} from '../../../src/many/queue/broker.ts';

export interface FailedOne {
  readonly index: number;
  readonly reason: string;
}

interface OneQueue {
  submission: Submission;
  waiting: { readonly task: QueuedTask; readonly failedBefore: number }[];
  readonly running: Set<MemoryJob>;
  readonly failed: FailedOne[];
  readonly done: number[];
}

export class MemoryBroker implements WorkerBroker {
  readonly place = 'memory';
  readonly queues = new Map<string, OneQueue>();
  readonly notices: Notice[] = [];
  readonly unable: { readonly submission: string; readonly why: string }[] = [];
  isAway = false;
  isDrainedNow = false;
  /** How often somebody asked what there is. */
  looks = 0;

  /** A submission with these indices waiting. */
  submit(submission: Submission, indices: readonly number[]): void {
    const waiting = indices.map((index) => ({ task: { format: 1, index } as const, failedBefore: 0 }));
    this.queues.set(submission.name, { submission, waiting, running: new Set(), failed: [], done: [] });
  }

  queue(name: string): OneQueue {
    const found = this.queues.get(name);
    if (found === undefined) throw new Error(`no queue ${name}`);
    return found;
  }

  waitingIn(name: string): readonly number[] {
    return this.queue(name).waiting.map(({ task }) => task.index);
  }

  /** As when a worker was stopped for longer than its lock: all that it held waits again. */
  loseLocks(name: string): void {
    const queue = this.queue(name);
    for (const job of queue.running)
      queue.waiting.unshift({ task: job.data, failedBefore: job.failedBefore });
    queue.running.clear();
  }

  list(): Promise<readonly Listed[]> {
    this.looks += 1;
    return this.#ask(() =>
      [...this.queues.values()].map((queue) => ({ kind: 'submission', ...seenOf(queue) }) as const),
    );
  }

  add(submission: Submission, tasks: Iterable<QueuedTask>): Promise<void> {
    return this.#ask(() => {
      const { waiting } = this.queue(submission.name);
      for (const task of tasks)
        if (!waiting.some((one) => one.task.index === task.index)) waiting.push({ task, failedBefore: 0 });
    });
  }

  put(submission: Submission): Promise<void> {
    return this.#ask(() => {
      this.queue(submission.name).submission = submission;
    });
  }

  counts(name: string): Promise<Seen['counts']> {
    return this.#ask(() => seenOf(this.queue(name)).counts);
  }

  take(name: string): Promise<TakenJob | undefined> {
    return this.#ask(() => {
      const queue = this.queue(name);
      const next = queue.waiting.shift();
      if (next === undefined) return undefined;
      const job = new MemoryJob(queue, next.task, next.failedBefore, () => this.isAway);
      queue.running.add(job);
      return job;
    });
  }

  renew(held: readonly TakenJob[]): Promise<readonly TakenJob[]> {
    return this.#ask(() =>
      held.filter((job) => job instanceof MemoryJob && !this.queue(job.submission).running.has(job)),
    );
  }

  watch(): Promise<void> {
    return Promise.resolve();
  }

  isDrained(): Promise<boolean> {
    return this.#ask(() => this.isDrainedNow);
  }

  tellUnable(submission: string, why: string): Promise<void> {
    return this.#ask(() => void this.unable.push({ submission, why }));
  }

  tell(notice: Notice): Promise<void> {
    return this.#ask(() => {
      const isThere = this.notices.some(
        (one) => one.submission === notice.submission && one.event === notice.event,
      );
      if (!isThere) this.notices.push(notice);
    });
  }

  takeNotice(): Promise<TakenNotice | undefined> {
    return this.#ask(() => undefined);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async #ask<T>(act: () => T): Promise<T> {
    await Promise.resolve();
    if (this.isAway) throw new BrokerAway('away');
    return act();
  }
}

class MemoryJob implements TakenJob {
  readonly submission: string;
  readonly data: QueuedTask;
  readonly failedBefore: number;
  readonly #queue: OneQueue;
  readonly #isAway: () => boolean;

  constructor(queue: OneQueue, data: QueuedTask, failedBefore: number, isAway: () => boolean) {
    this.submission = queue.submission.name;
    this.data = data;
    this.failedBefore = failedBefore;
    this.#queue = queue;
    this.#isAway = isAway;
  }

  done(): Promise<boolean> {
    return this.#end(() => void this.#queue.done.push(this.data.index));
  }

  async failed(reason: string, isFinal: boolean): Promise<'retried' | 'failed' | 'lost'> {
    const willRetry = !isFinal && this.failedBefore < this.#queue.submission.retries;
    const isOurs = await this.#end(() => {
      if (willRetry) this.#queue.waiting.push({ task: this.data, failedBefore: this.failedBefore + 1 });
      else this.#queue.failed.push({ index: this.data.index, reason });
    });
    if (!isOurs) return 'lost';
    return willRetry ? 'retried' : 'failed';
  }

  giveBack(): Promise<boolean> {
    return this.#end(
      () => void this.#queue.waiting.unshift({ task: this.data, failedBefore: this.failedBefore }),
    );
  }

  async #end(act: () => void): Promise<boolean> {
    await Promise.resolve();
    if (this.#isAway()) throw new BrokerAway('away');
    if (!this.#queue.running.delete(this)) return false;
    act();
    return true;
  }
}

function seenOf({ submission, waiting, running, failed }: OneQueue): Seen {
  return { submission, counts: { waiting: waiting.length, running: running.size, failed: failed.length } };
}
