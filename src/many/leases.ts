// The locks of all jobs that this worker has taken, renewed until the queue knows how each ended. What the
// queue misses while it is away it gets when it is back. A lease never ends a task: the store decides who has an index.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../log/log.ts';
import { reasonOf } from '../model/errors.ts';
import { clockMs } from '../native/clock.ts';
import { BrokerAway, type TakenJob, type WorkerBroker } from './broker.ts';

/** In the time of one lock: two may be lost to a slow server. */
const RENEWALS = 4;
const SETTLE_LOOK_MS = 100;
const SAID_EVERY_MS = 60_000;

export class JobLeases {
  readonly #broker: Pick<WorkerBroker, 'renew' | 'lockMs'>;
  readonly #log: Pick<Log, 'info' | 'warn'>;
  readonly #held = new Set<TakenJob>();
  /** The queue is being told: whether there is still a lock says nothing. */
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
        // First: the lock of what has ended may be gone.
        await this.#tellAll();
        await this.#renew();
      } catch (error) {
        // Whatever it is, the next time may go well: without renewals another worker would take all that runs here.
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

  /** Does `tell` now or, if the queue is away, as soon as it is back; then the lease is over. */
  async end(job: TakenJob, tell: () => Promise<unknown>): Promise<void> {
    this.#ending.add(job);
    try {
      await tell();
      this.#forget(job);
    } catch (error) {
      if (error instanceof BrokerAway) return void this.#untold.set(job, tell);
      // Its lock runs out, and another worker asks the store.
      this.#forget(job);
      throw error;
    } finally {
      this.#ending.delete(job);
    }
  }

  /** Those with jobs of ours. */
  submissions(): ReadonlySet<string> {
    return new Set([...this.#held, ...this.#untold.keys()].map(({ submission }) => submission));
  }

  /** Resolves when all ends are told, or when `signal` aborts. */
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
      // Not renewed again: should it run elsewhere, the store ends one of the two.
      this.#log.info(
        `the queue counts a task of ${job.submission} as nobody's: it goes on here until another attempt begins`,
      );
    }
  }

  #forget(job: TakenJob): void {
    this.#held.delete(job);
    this.#untold.delete(job);
  }
}
