// Downloads that are whole and wait for their names, which they get together: one sync of the file system before the
// renames of hundreds of files costs less than an fsync for each.
import type { Arrived, Destination } from './destination.ts';

/** A batch ends with either. A process that is killed leaves so much to be checked anew, a power cut to be downloaded. */
const MOST_FILES = 256;
const MOST_BYTES = 64 * 2 ** 20;

export interface Arrival extends Arrived {
  readonly index: string;
}

/** Where they get them. */
type Place = Pick<Destination, 'syncsWhole' | 'sync' | 'place'>;

export class Arrivals {
  readonly #destination: Place;
  readonly #told: (arrival: Arrival, why: string | undefined) => void;
  #waiting: Arrival[] = [];
  #bytes = 0;

  /** `told` of each one that has its name, or why it has not. */
  constructor(destination: Place, told: (arrival: Arrival, why: string | undefined) => void) {
    this.#destination = destination;
    this.#told = told;
  }

  /** Resolves when there is room for the next one. */
  async add(arrival: Arrival, signal: AbortSignal): Promise<void> {
    this.#waiting.push(arrival);
    this.#bytes += arrival.source.size;
    const isFull = this.#waiting.length >= MOST_FILES || this.#bytes >= MOST_BYTES;
    // What is synced alone has nothing to wait for.
    if (isFull || !this.#destination.syncsWhole) await this.place(signal);
  }

  /** All that has arrived gets its name. */
  async place(signal: AbortSignal): Promise<void> {
    const batch = this.#waiting;
    this.#waiting = [];
    this.#bytes = 0;
    if (batch.length === 0) return;
    // What arrives meanwhile may not be on the disk: it waits for the next time.
    await this.#destination.sync();
    for (const arrival of batch) this.#told(arrival, await this.#destination.place(arrival, signal));
  }

  /** The same, and the names are on the disk, too. */
  async finish(signal: AbortSignal): Promise<void> {
    await this.place(signal);
    await this.#destination.sync();
  }
}
