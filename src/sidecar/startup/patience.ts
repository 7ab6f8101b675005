// How long the start waits for a store that does not answer: one deadline for all its requests. Each answer extends it,
// even one that says that the store is busy, and so do bytes that arrive fast enough. Time without a request (a user's
// check, a slow disk) does not count.
import { formatMs } from '../../model/units.ts';
import { type LinkedSignal, linkSignals } from '../../model/waiting.ts';
import { LONGEST_PAUSE_MS } from '../../store/contract/driver.ts';
import {
  type OnTry,
  SLOWEST_BYTES_PER_S,
  StoreError,
  type GotObject,
  type PutOptions,
  type PutOutcome,
  type Store,
} from '../../store/contract/store.ts';
import { LOST_WAIT_MS, type Outage } from '../run/outage.ts';

/** The store gets at least this long, however short the time for the drain is. */
const LEAST_MS = 1000;

export interface PatienceOptions {
  /** Undefined: each request has its own time limit. */
  readonly limitMs: number | undefined;
  /** Ends the start for other reasons. */
  readonly signal: AbortSignal;
  /** Gets all tries, and says why the last ones failed. */
  readonly outage: Partial<Pick<Outage, 'trouble' | 'tried'>>;
}

/** An outage may take as long at the start as at the end, but a minute at most. */
export function startLimitMs({ drainTimeoutMs }: { readonly drainTimeoutMs: number }): number {
  return Math.max(LEAST_MS, Math.min(drainTimeoutMs, LOST_WAIT_MS));
}

/** Listens to `options.signal` until it is closed. */
export function openPatience(options: PatienceOptions): Patience {
  const end = new AbortController();
  return new Patience(options, end, linkSignals(options.signal, end.signal));
}

/**
 * The start makes its requests through `over(store)`, with `signal`. After close() its operations are the store's own.
 */
export class Patience {
  readonly #options: PatienceOptions;
  readonly #limitMs: number;
  readonly #end: AbortController;
  readonly #linked: LinkedSignal;
  #asking = 0;
  /** Time without an answer: the sum up to `#sinceMs`, and the time since then while a request is under way. */
  #waitedMs = 0;
  #sinceMs = 0;
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;
  /** Called when the start has ended. */
  readonly #ends: (() => void)[] = [];
  #isClosed = false;

  /** `linked`: aborts with `end`, or if the start ends for other reasons. */
  constructor(options: PatienceOptions, end: AbortController, linked: LinkedSignal) {
    this.#options = options;
    this.#limitMs = options.limitMs ?? Infinity;
    this.#end = end;
    this.#linked = linked;
  }

  get signal(): AbortSignal {
    return this.#linked.signal;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#linked.unlink();
    for (const end of this.#ends.splice(0)) end();
  }

  /**
   * For the `onTry` of the stores. A busy server is alive, and the driver decides how long it is asked. The pause that
   * follows is not the server's.
   */
  readonly tried: OnTry = (use, error) => {
    this.#options.outage.tried?.(use, error);
    if (error?.kind === 'busy') this.#goesOn(LONGEST_PAUSE_MS);
  };

  over(store: Store): Store {
    if (this.#options.limitMs === undefined) return store;
    const patient: Store = {
      url: store.url,
      get createsAtomically() {
        return store.createsAtomically;
      },
      listsByPage: store.listsByPage,
      replacesAtomically: (signal) => this.#answer(() => store.replacesAtomically(signal)),
      put: (key, body, options) => this.#put(store, key, body, options),
      get: (key, options) => this.#get(store, key, options),
      head: (key, signal) => this.#answer(() => store.head(key, signal)),
      list: (prefix, signal) => stepwise(store.list(prefix, signal), (next) => this.#answer(next)),
      folders: (prefix, signal) => this.#answer(() => store.folders(prefix, signal)),
      delete: (keys, signal) => this.#answer(() => store.delete(keys, signal)),
      copy: (from, to, signal) => store.copy(from, to, signal),
      promote: (from, to, options) => store.promote(from, to, options),
      sweep: (prefix, mine, signal) => this.#answer(() => store.sweep(prefix, mine, signal)),
      confirm: (signal) => store.confirm(signal),
      access: (signal) => store.access(signal),
      close: () => store.close(),
    };
    // Requests of the run do not pass through here.
    this.#ends.push(() => Object.defineProperties(patient, Object.getOwnPropertyDescriptors(store)));
    return patient;
  }

  /** How much of a body has been sent is unknown until all of it has: a large one is not timed here. */
  async #put(
    store: Store,
    key: string,
    body: Uint8Array | AsyncIterable<Uint8Array>,
    options: PutOptions,
  ): Promise<PutOutcome> {
    const put = (): Promise<PutOutcome> => store.put(key, body, options);
    return body instanceof Uint8Array && body.length < this.#leastBytes ? this.#answer(put) : put();
  }

  /** The answer is complete once the whole object has arrived. */
  async #get(
    store: Store,
    key: string,
    options: Parameters<Store['get']>[1],
  ): Promise<GotObject | undefined> {
    const got = await this.#during(() => store.get(key, options));
    if (got === undefined) {
      this.#goesOn();
      return undefined;
    }
    const body = stepwise(got.body, async (next) => {
      const step = await this.#during(next);
      this.#bytes += step.done === true ? Infinity : step.value.length;
      if (this.#bytes >= this.#leastBytes) this.#goesOn();
      return step;
    });
    return { ...got, body };
  }

  async #answer<T>(ask: () => Promise<T>): Promise<T> {
    const answer = await this.#during(ask);
    this.#goesOn();
    return answer;
  }

  async #during<T>(ask: () => Promise<T>): Promise<T> {
    this.#asking += 1;
    if (this.#asking === 1) this.#arm();
    try {
      return await ask();
    } finally {
      this.#asking -= 1;
      if (this.#asking === 0) this.#rest();
    }
  }

  /** If fewer bytes of a body than this arrive within the limit, the link counts as down. */
  get #leastBytes(): number {
    return (SLOWEST_BYTES_PER_S * this.#limitMs) / 1000;
  }

  /** `pauseMs`: no answer is expected before this time has passed. */
  #goesOn(pauseMs = 0): void {
    this.#bytes = 0;
    this.#waitedMs = -pauseMs;
    if (this.#asking > 0) this.#arm();
  }

  #arm(): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    this.#sinceMs = performance.now();
    this.#timer = setTimeout(() => this.#giveUp(), this.#limitMs - this.#waitedMs).unref();
  }

  #rest(): void {
    clearTimeout(this.#timer);
    this.#waitedMs += performance.now() - this.#sinceMs;
  }

  #giveUp(): void {
    const { trouble } = this.#options.outage;
    const why = trouble?.message ?? 'the store gives no answer';
    this.#end.abort(
      new StoreError('transient', `${why}; waited for it for ${formatMs(this.#limitMs)}`, {
        hint: trouble?.hint ?? 'check the network, and AWS_ENDPOINT_URL and HTTPS_PROXY, or the file server',
      }),
    );
  }
}

/** The same items; calls `take` for each wait for one. An item that was not read is given up as before. */
function stepwise<T>(
  items: AsyncIterable<T>,
  take: (next: () => Promise<IteratorResult<T, unknown>>) => Promise<IteratorResult<T, unknown>>,
): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]: () => {
      const iterator = items[Symbol.asyncIterator]();
      return {
        next: () => take(() => iterator.next()),
        return: async () => (await iterator.return?.()) ?? { done: true, value: undefined },
      };
    },
  };
}
