// The tasks of one array in memory, for one worker. Nobody else takes them, so no lock ever expires. A waiting index
// costs 4 bytes.
import type { QueueCounts } from '../model/many/choose.ts';
import type { Submission } from '../model/many/submission.ts';
import type { Listed, TakenJob, WorkerBroker } from './broker.ts';

/** Renewals do nothing here, so they may be rare. */
const LOCK_MS = 86_400_000;

/** An index that was taken before, and waits again. */
interface WaitingIndex {
  readonly index: number;
  readonly failedBefore: number;
}

/** The key of the newest record of an index; empty if there is none. */
export type LastSeen = (index: number) => string;

export class MemoryBroker implements WorkerBroker {
  readonly lockMs = LOCK_MS;
  readonly #submission: Submission;
  readonly #fresh: Uint32Array;
  readonly #lastSeen: LastSeen | undefined;
  /** Position of the next fresh index; all before it were taken. */
  #at = 0;
  readonly #givenBack = new Fifo();
  readonly #retries = new Fifo();
  readonly #running = new Set<TakenJob>();
  #failed = 0;

  /** `lastSeen`: undefined if the store was not asked. Fresh indices keep their order; they come after those that were given back, and before those that failed. */
  constructor(submission: Submission, fresh: Uint32Array, lastSeen?: LastSeen) {
    this.#submission = submission;
    this.#fresh = fresh;
    this.#lastSeen = lastSeen;
  }

  counts(): QueueCounts {
    return {
      waiting: this.#givenBack.length + this.#fresh.length - this.#at + this.#retries.length,
      running: this.#running.size,
      failed: this.#failed,
    };
  }

  list(): Promise<readonly Listed[]> {
    return Promise.resolve([{ kind: 'submission', submission: this.#submission, counts: this.counts() }]);
  }

  take(): Promise<TakenJob | undefined> {
    const before = this.#givenBack.take();
    const fresh = before === undefined ? this.#takeFresh() : undefined;
    const next = before ?? fresh ?? this.#retries.take();
    if (next === undefined) return Promise.resolve(undefined);
    const lastSeen = fresh === undefined ? undefined : this.#lastSeen?.(fresh.index);
    const job = this.#jobOf(next, lastSeen);
    this.#running.add(job);
    return Promise.resolve(job);
  }

  renew(held: readonly TakenJob[]): Promise<readonly TakenJob[]> {
    return Promise.resolve(held.filter((job) => !this.#running.has(job)));
  }

  #takeFresh(): WaitingIndex | undefined {
    const index = this.#fresh[this.#at];
    if (index === undefined) return undefined;
    this.#at += 1;
    return { index, failedBefore: 0 };
  }

  #jobOf(waiting: WaitingIndex, lastSeen: string | undefined): TakenJob {
    const { index, failedBefore } = waiting;
    const { name, retries } = this.#submission;
    const end = (): boolean => this.#running.delete(job);
    const job: TakenJob = {
      submission: name,
      task: { value: { format: 1, index } },
      failedBefore,
      lastSeen,
      done: () => Promise.resolve(end()),
      failed: (_reason, isFinal) => {
        if (!end()) return Promise.resolve('lost');
        const willRetry = !isFinal && failedBefore < retries;
        if (willRetry) this.#retries.add({ index, failedBefore: failedBefore + 1 });
        else this.#failed += 1;
        return Promise.resolve(willRetry ? 'retried' : 'failed');
      },
      giveBack: () => {
        const isOurs = end();
        if (isOurs) this.#givenBack.add(waiting);
        return Promise.resolve(isOurs);
      },
    };
    return job;
  }
}

/** A first-in, first-out queue. Removing the head of a plain array would cost time in proportion to its length. */
class Fifo {
  #waiting: WaitingIndex[] = [];
  #head = 0;

  get length(): number {
    return this.#waiting.length - this.#head;
  }

  add(one: WaitingIndex): void {
    this.#waiting.push(one);
  }

  take(): WaitingIndex | undefined {
    const one = this.#waiting[this.#head];
    if (one === undefined) return undefined;
    this.#head += 1;
    // More than half of the array is used up: copying the rest costs no more than the removals before it.
    if (this.#head > this.#waiting.length / 2) {
      this.#waiting = this.#waiting.slice(this.#head);
      this.#head = 0;
    }
    return one;
  }
}
