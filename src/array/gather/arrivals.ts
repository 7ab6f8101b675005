// Complete downloads that wait for their final names. They are renamed in batches: one sync of the file system before
// hundreds of renames costs less than an fsync for each file.
import type { Arrived, Destination } from './destination.ts';

/**
 * Limits of a batch. After a kill, this much must be checked again; after a power failure, it must be downloaded again.
 */
const MOST_FILES = 256;
const MOST_BYTES = 64 * 2 ** 20;

export interface Arrival extends Arrived {
  readonly index: string;
}

/** The directory that they are renamed in. */
type TargetDirectory = Pick<Destination, 'syncsWhole' | 'sync' | 'place'>;

export class Arrivals {
  readonly #destination: TargetDirectory;
  readonly #told: (arrival: Arrival, why: string | undefined) => void;
  #waiting: Arrival[] = [];
  #bytes = 0;

  /** `told` is called for each download that was renamed, or with the reason why not. */
  constructor(destination: TargetDirectory, told: (arrival: Arrival, why: string | undefined) => void) {
    this.#destination = destination;
    this.#told = told;
  }

  /** Resolves when there is room for the next one. */
  async add(arrival: Arrival, signal: AbortSignal): Promise<void> {
    this.#waiting.push(arrival);
    this.#bytes += arrival.source.size;
    const isFull = this.#waiting.length >= MOST_FILES || this.#bytes >= MOST_BYTES;
    // A download that was synced on its own need not wait for a batch.
    if (isFull || !this.#destination.syncsWhole) await this.place(signal);
  }

  /** Renames all downloads that have arrived. */
  async place(signal: AbortSignal): Promise<void> {
    const batch = this.#waiting;
    this.#waiting = [];
    this.#bytes = 0;
    if (batch.length === 0) return;
    // Files that arrive during the sync may not be on the disk, so they wait for the next batch.
    await this.#destination.sync();
    for (const arrival of batch) this.#told(arrival, await this.#destination.place(arrival, signal));
  }

  /** The same, and also syncs the renames. */
  async finish(signal: AbortSignal): Promise<void> {
    await this.place(signal);
    await this.#destination.sync();
  }
}
