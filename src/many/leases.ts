// The locks of all jobs that this worker has taken. They are renewed until the queue knows how each job ended. If the
// queue is away, the results are sent when it is back. A lost lease never ends a task: the store decides which attempt
// has an index.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../log/log.ts';
import { reasonOf } from '../model/errors.ts';
import { clockMs } from '../native/clock.ts';
import { BrokerAway, type TakenJob, type WorkerBroker } from './broker.ts';

/** Renewals within the lifetime of one lock. A slow server may miss two of them. */
const RENEWALS = 4;
const SETTLE_LOOK_MS = 100;
const SAID_EVERY_MS = 60_000;

export class JobLeases {
  readonly #broker: Pick<WorkerBroker, 'renew' | 'lockMs'>;
  readonly #log: Pick<Log, 'info' | 'warn'>;
  readonly #held = new Set<TakenJob>();
  /** Jobs whose end is being sent to the queue. A missing lock means nothing for them. */
  readonly #ending = new Set<TakenJob>();
  readonly #untold = new Map<TakenJob, () => Promise<unknown>>();

  constructor(broker: Pick<WorkerBroker, 'renew' | 'lockMs'>, log: Pick<Log, 'info' | 'warn'>) {
    this.#broker = broker;
    this.#log = log;
  }

  /** Renews them until `signal` aborts. Never rejects. */
  async keep(signal: AbortSignal): Promise<void> {
    let saidMs = -Infinity;
    while (!signal.aborted) {
      try {
        // Send the ends first: a job that has ended may have no lock any more.
        await this.#tellAll();
        await this.#renew();
      } catch (error) {
        // The next renewal may work, whatever the error is. Without renewals another worker would take all that runs
        // here.
        if (!(error instanceof BrokerAway) && clockMs() - saidMs > SAID_EVERY_MS) {
          saidMs = clockMs();
          this.#log.warn(`locks of the queue cannot be renewed: ${reasonOf(error)}`);
        }
      }
      await sleep(this.#broker.lockMs / RENEWALS, undefined, { signal }).catch(() => undefined);
    }
  }

  add(job: TakenJob): void {
    this.#held.add(job);
  }

  /** Calls `tell` now or, if the queue is away, as soon as it is back. The lease ends after that. */
  async end(job: TakenJob, tell: () => Promise<unknown>): Promise<void> {
    this.#ending.add(job);
    try {
      await tell();
      this.#forget(job);
    } catch (error) {
      if (error instanceof BrokerAway) return void this.#untold.set(job, tell);
      // The lock expires, and another worker asks the store.
      this.#forget(job);
      throw error;
    } finally {
      this.#ending.delete(job);
    }
  }

  /** Submissions whose jobs we hold. */
  submissions(): ReadonlySet<string> {
    return new Set([...this.#held, ...this.#untold.keys()].map(({ submission }) => submission));
  }

  /** Resolves when the queue knows all ends, or when `signal` aborts. */
  async settled(signal: AbortSignal): Promise<void> {
    while (this.#untold.size > 0 && !signal.aborted) {
      await this.#tellAll();
      if (this.#untold.size > 0) await sleep(SETTLE_LOOK_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async #tellAll(): Promise<void> {
    for (const [job, tell] of this.#untold) await this.end(job, tell);
  }

  async #renew(): Promise<void> {
    const asked = [...this.#held].filter((job) => !this.#ending.has(job));
    if (asked.length === 0) return;
    for (const job of await this.#broker.renew(asked)) {
      if (this.#ending.has(job) || !this.#held.delete(job)) continue;
      // This lock is not renewed again. If the job also runs elsewhere, the store ends one of the two attempts.
      this.#log.info(
        `the queue counts a task of ${job.submission} as abandoned: it goes on here until another attempt begins`,
      );
    }
  }

  #forget(job: TakenJob): void {
    this.#held.delete(job);
    this.#untold.delete(job);
  }
}
