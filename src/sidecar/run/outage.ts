// Notices from the tries of all store operations that the store has stopped working. Says so once, with how many files
// wait and what to do, and says once that it works again; never for each file.
import type { Log } from '../../log/log.ts';
import { formatMs, plural } from '../../model/units.ts';
import type { OnTry, StoreError, StoreUse } from '../../store/contract/store.ts';

/** A failure that a retry overcomes counts as an outage only after it has lasted this long. */
const QUIET_MS = 3000;

/** How long the end of the run waits for a store that is gone, in ms: as long as one operation is retried. */
export const LOST_WAIT_MS = 60_000;

/** What an outage means to the run, once the run has begun. */
export interface OutageRun {
  /** Files that wait for the store. */
  readonly waiting: () => number;
  /** The store works again. */
  readonly onOver: () => void;
}

/** Before `runs` is called nothing has been started: the start waits for the store, then fails. */
export function openOutage(log: Log, now: () => number): Outage {
  const outage = new Outage(log, now);
  outage.asked();
  return outage;
}

export class Outage {
  readonly #log: Log;
  readonly #now: () => number;
  /** By use: a successful read does not end a failure of the writes. */
  readonly #troubles = new Map<StoreUse, StoreError>();
  readonly #lasting = new Set<string>();
  #run: OutageRun | undefined;
  #drainMs: number | undefined;
  #sinceMs: number;
  #timer: NodeJS.Timeout | undefined;
  #said = false;
  #claimLost = false;

  constructor(log: Log, now: () => number) {
    this.#log = log;
    this.#now = now;
    this.#sinceMs = now();
  }

  /** A request begins. A server that does not even refuse fails its first try only after half a minute. */
  asked(): void {
    this.#arm();
  }

  /** For the store's `onTry`. */
  readonly tried: OnTry = (use, error) => {
    if (use === 'remove') return; // it has a warning of its own
    if (error === undefined) return this.#works(use);
    if (this.#troubles.size === 0) this.#sinceMs = this.#now();
    this.#troubles.set(use, error);
    if (this.#said) return;
    const passes = error.kind === 'transient' || error.kind === 'busy';
    if (this.#run !== undefined && !passes) this.#sayLasting(error);
    else this.#arm();
  };

  /** For the fence's `onLooked`: our claim is gone from the store, or has returned. */
  readonly looked = (lost: StoreError | undefined): void => {
    if (lost === undefined) {
      if (this.#claimLost) this.#log.info('the claim of this attempt is in the store again');
      this.#claimLost = false;
    } else if (!this.#claimLost) {
      this.#claimLost = true;
      this.#log.error(lost.message, { hint: lost.hint });
    }
  };

  /** True if the user knows that the store does not work: no single failure needs a message then. */
  get isKnown(): boolean {
    return this.#said || this.#claimLost;
  }

  /** The store is gone, or another one is in its place. */
  get isLost(): boolean {
    return this.#claimLost || [...this.#troubles.values()].some(({ kind }) => kind === 'lost');
  }

  /** Why the store does not work, as far as the tries have shown. */
  get trouble(): StoreError | undefined {
    const [error] = this.#troubles.values();
    return error;
  }

  /** From now on an outage only costs time. */
  runs(run: OutageRun): void {
    this.#run = run;
  }

  /** The task has ended; waiting files are retried for this long at most. */
  drains(forMs: number): void {
    this.#drainMs = forMs;
    if (this.#said) this.#sayBegin('the task has ended, and the store does not work');
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #works(use: StoreUse): void {
    this.#troubles.delete(use);
    if (this.#troubles.size > 0) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#said) return;
    this.#said = false;
    const ms = this.#now() - this.#sinceMs;
    this.#log.info(`the store works again, after ${formatMs(ms)}`, { event: 'outage-over', ms });
    this.#run?.onOver();
  }

  #arm(): void {
    this.#timer ??= setTimeout(() => this.#sayBegin('the store does not work'), QUIET_MS).unref();
  }

  /**
   * If a permission is missing for some keys only, each success with another key would end the outage and begin a new
   * one.
   */
  #sayLasting(error: StoreError): void {
    if (this.#lasting.has(error.message)) return;
    this.#lasting.add(error.message);
    this.#sayBegin('the store does not work');
  }

  #sayBegin(what: string): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#said = true;
    const error = this.trouble;
    const why = error === undefined ? 'no answer yet' : error.message;
    this.#log.warn(`${what}: ${why}; ${this.#consequence()}`, { event: 'outage', hint: error?.hint });
  }

  #consequence(): string {
    if (this.#run === undefined) return 'waiting for it, the task is not started yet';
    const count = this.#run.waiting();
    const forMs = Math.min(this.#drainMs ?? Infinity, this.isLost ? LOST_WAIT_MS : Infinity);
    const triedFor = this.#drainMs === undefined ? '' : ` for up to ${formatMs(forMs)}`;
    if (count === 0) return `tried again${triedFor}`;
    return `${plural(count, 'file')} ${count === 1 ? 'waits and is' : 'wait and are'} tried again${triedFor}`;
  }
}
