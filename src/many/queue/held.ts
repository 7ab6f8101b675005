// All jobs that this worker has taken, until the queue knows how each ended: their locks are renewed, and what the queue
// could not be told while it was away is told when it is back. It never ends a task: whose an index is, the store decides.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../log/log.ts';
import { reasonOf } from '../../model/errors.ts';
import { clockMs } from '../../native/clock.ts';
import { type TakenJob, BrokerAway, type WorkerBroker } from './broker.ts';

export interface Held {
  add(job: TakenJob): void;
  /** Does `tell` now or, if the queue is away, as soon as it is back; then the job is no longer held. */
  end(job: TakenJob, tell: () => Promise<void>): Promise<void>;
  /** Of which there are jobs. */
  submissions(): ReadonlySet<string>;
  /** Resolves when all ends are told, or when `signal` aborts. */
  settled(signal: AbortSignal): Promise<void>;
  close(): void;
}

interface HeldOptions {
  readonly broker: Pick<WorkerBroker, 'renew'>;
  /** Locks are renewed four times as often. */
  readonly lockMs: number;
  readonly nameOf: (job: TakenJob) => string;
  readonly log: Pick<Log, 'info' | 'warn'>;
}

const SETTLE_LOOK_MS = 100;
const SAID_EVERY_MS = 60_000;

export function openHeld({ broker, lockMs, nameOf, log }: HeldOptions): Held {
  const held = new Set<TakenJob>();
  /** The queue is being told: whether there is still a lock says nothing. */
  const ending = new Set<TakenJob>();
  const untold = new Map<TakenJob, () => Promise<void>>();
  const stop = new AbortController();
  const end = async (job: TakenJob, tell: () => Promise<void>): Promise<void> => {
    ending.add(job);
    try {
      await tell();
      held.delete(job);
      untold.delete(job);
    } catch (error) {
      if (!(error instanceof BrokerAway)) {
        // Its lock runs out, and another worker asks the store.
        held.delete(job);
        untold.delete(job);
        throw error;
      }
      untold.set(job, tell);
    } finally {
      ending.delete(job);
    }
  };
  const renew = async (): Promise<void> => {
    const asked = [...held].filter((job) => !ending.has(job));
    if (asked.length === 0) return;
    for (const job of await broker.renew(asked)) {
      if (ending.has(job) || !held.delete(job)) continue;
      // Not renewed again: should it run elsewhere, the store ends one of the two.
      log.info(`the queue counts ${nameOf(job)} as nobody's: it goes on here until another attempt begins`);
    }
  };
  let saidMs = -Infinity;
  const keep = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      try {
        // First: of what has ended it is no news that its lock is gone.
        for (const [job, tell] of untold) await end(job, tell);
        await renew();
      } catch (error) {
        // Whatever it is, the next time may go well: without renewals another worker would take all that runs here.
        if (!(error instanceof BrokerAway) && clockMs() - saidMs > SAID_EVERY_MS) {
          saidMs = clockMs();
          log.warn(`locks of the queue cannot be renewed: ${reasonOf(error)}`);
        }
      }
      await sleep(lockMs / RENEWALS, undefined, stop).catch(() => undefined);
    }
  };
  void keep();
  return {
    add: (job) => void held.add(job),
    end,
    submissions: () => new Set([...held, ...untold.keys()].map(({ submission }) => submission)),
    settled: async (signal) => {
      while (untold.size > 0 && !signal.aborted) {
        for (const [job, tell] of untold) await end(job, tell);
        if (untold.size > 0) await sleep(SETTLE_LOOK_MS, undefined, { signal }).catch(() => undefined);
      }
    },
    close: () => stop.abort(),
  };
}

/** In the time of one lock: two may be lost to a slow server. */
const RENEWALS = 4;
