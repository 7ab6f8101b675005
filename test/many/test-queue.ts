// A queue that workers could share, in memory: a real MemoryBroker for each submission. The test says when it is away, and when
// locks have run out.
import { BrokerAway, type Listed, type TakenJob } from '../../src/many/broker.ts';
import { MemoryBroker } from '../../src/many/memory-broker.ts';
import type { Notice, SharedBroker, TakenNotice } from '../../src/many/queue/broker.ts';
import type { QueuedTask, Submission } from '../../src/model/many/submission.ts';

interface OneQueue {
  submission: Submission;
  broker: MemoryBroker;
  readonly done: number[];
  readonly failed: { readonly index: number; readonly reason: string }[];
}

export class TestQueue implements SharedBroker {
  readonly lockMs = 40;
  readonly queues = new Map<string, OneQueue>();
  readonly notices: Notice[] = [];
  /** Of each job that was taken from here, that of its MemoryBroker. */
  readonly #within = new Map<TakenJob, TakenJob>();
  readonly unable: { readonly submission: string; readonly why: string }[] = [];
  /** Jobs of these indices cannot be read. */
  readonly unreadable = new Set<number>();
  isAway = false;
  /** What every call is answered with. */
  error: Error | undefined;
  /** The jobs of these submissions cannot be taken: the server answers with an error. */
  readonly broken = new Set<string>();
  isDrainedNow = false;
  /** Submissions that have lost a worker. */
  readonly lost = new Set<string>();
  /** How often somebody asked what there is. */
  looks = 0;

  /** A submission with these indices waiting. */
  submit(submission: Submission, indices: readonly number[]): void {
    const broker = new MemoryBroker(submission, Uint32Array.from(indices));
    this.queues.set(submission.name, { submission, broker, done: [], failed: [] });
  }

  queue(name: string): OneQueue {
    const found = this.queues.get(name);
    if (found === undefined) throw new Error(`no queue ${name}`);
    return found;
  }

  /** In the order in which they would be taken. */
  async waitingIn(name: string): Promise<readonly number[]> {
    const { broker } = this.queue(name);
    const jobs: TakenJob[] = [];
    for (let job = await broker.take(); job !== undefined; job = await broker.take()) jobs.push(job);
    for (const job of jobs) await job.giveBack();
    return jobs.map(indexOf);
  }

  /** As when a worker was stopped for longer than its lock: all that it held waits again. */
  async loseLocks(name: string): Promise<void> {
    for (const job of this.#within.values()) if (job.submission === name) await job.giveBack();
  }

  list(): Promise<readonly Listed[]> {
    this.looks += 1;
    return this.#ask(() =>
      [...this.queues.values()].map(
        ({ submission, broker }) => ({ kind: 'submission', submission, counts: broker.counts() }) as const,
      ),
    );
  }

  add(submission: Submission, tasks: Iterable<QueuedTask>): Promise<void> {
    return this.#ask(() => {
      const indices = Array.from(tasks, ({ index }) => index);
      this.queue(submission.name).broker = new MemoryBroker(submission, Uint32Array.from(indices));
    });
  }

  put(submission: Submission): Promise<void> {
    return this.#ask(() => {
      this.queue(submission.name).submission = submission;
    });
  }

  take(name: string): Promise<TakenJob | undefined> {
    return this.#ask(async () => {
      if (this.broken.has(name)) throw new BrokerAway('WRONGTYPE', { kind: 'refused' });
      const queue = this.queue(name);
      const job = await queue.broker.take();
      if (job === undefined) return undefined;
      const heard = this.#heard(job, queue);
      this.#within.set(heard, job);
      return heard;
    });
  }

  async renew(held: readonly TakenJob[]): Promise<readonly TakenJob[]> {
    return this.#ask(async () => {
      const lost: TakenJob[] = [];
      for (const job of held) {
        const within = this.#within.get(job) ?? job;
        if ((await this.queue(job.submission).broker.renew([within])).length > 0) lost.push(job);
      }
      return lost;
    });
  }

  watch(): Promise<void> {
    return Promise.resolve();
  }

  hasLost(name: string): Promise<boolean> {
    return this.#ask(() => this.lost.has(name));
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

  /** The job, whose end the test can look at. */
  #heard(job: TakenJob, queue: OneQueue): TakenJob {
    const index = indexOf(job);
    return {
      ...job,
      task: this.unreadable.has(index) ? { why: 'not readable' } : job.task,
      done: () =>
        this.#ask(async () => {
          const isOurs = await job.done();
          if (isOurs) queue.done.push(index);
          return isOurs;
        }),
      failed: (reason, isFinal) =>
        this.#ask(async () => {
          const fate = await job.failed(reason, isFinal);
          if (fate === 'failed') queue.failed.push({ index, reason });
          return fate;
        }),
      giveBack: () => this.#ask(() => job.giveBack()),
    };
  }

  async #ask<T>(act: () => T | Promise<T>): Promise<T> {
    await Promise.resolve();
    if (this.isAway) throw new BrokerAway('away');
    if (this.error !== undefined) throw this.error;
    return act();
  }
}

function indexOf({ task }: TakenJob): number {
  if ('why' in task) throw new Error(task.why);
  return task.value.index;
}
