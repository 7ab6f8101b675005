// Tells the user that a command waits for a store that does not answer, and why. It logs one line per outage, however
// many requests fail, and one line when the store works again. stored-array.ts creates it together with the store.
import type { Log } from '../log/log.ts';
import { formatMs } from '../model/units.ts';
import { paceOf } from '../store/contract/driver.ts';
import type { OnTry, StoreError, StoreUse } from '../store/contract/store.ts';

/** A failure that the next try solves is no outage. */
const QUIET_MS = 3000;

export class Outage {
  readonly #url: string;
  readonly #log: Pick<Log, 'info' | 'warn'>;
  /** Failures by use: a successful read does not end a failure of the writes. */
  readonly #troubles = new Map<StoreUse, StoreError>();
  #sinceMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #isSaid = false;

  constructor(url: string, log: Pick<Log, 'info' | 'warn'>) {
    this.#url = url;
    this.#log = log;
  }

  /**
   * A request starts now. If a server does not even refuse connections, the first try fails only after half a minute.
   */
  asked(): void {
    if (this.#timer !== undefined) return;
    this.#sinceMs = performance.now();
    this.#timer = setTimeout(() => this.#say(), QUIET_MS).unref();
  }

  /** The callback for the store's `onTry`. */
  readonly tried: OnTry = (use, error) => {
    // An error that no retry can solve counts as an answer, too: the command ends with it.
    if (error !== undefined && paceOf(error) !== undefined) {
      this.#troubles.set(use, error);
      return this.asked();
    }
    this.#troubles.delete(use);
    if (this.#troubles.size > 0) return;
    this.close();
    if (!this.#isSaid) return;
    this.#isSaid = false;
    const ms = performance.now() - this.#sinceMs;
    this.#log.info(`the store works again, after ${formatMs(ms)}`, { event: 'outage-over', ms });
  };

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #say(): void {
    this.#isSaid = true;
    const [error] = this.#troubles.values();
    const forMs = performance.now() - this.#sinceMs;
    this.#log.warn(
      `still trying ${this.#url}, for ${formatMs(forMs)} now: ${error?.message ?? 'no answer yet'}`,
      {
        event: 'outage',
        hint: error?.hint,
      },
    );
  }
}
