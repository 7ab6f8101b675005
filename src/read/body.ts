// The reader's end of a body: turns a worker's parts into an async iterator, with one part in the reader's hands
// and one on its way. Never ends well unless the worker has proven the file.
import { createDeferred } from '../model/waiting.ts';
import type { Body, BodyHead, Bytes, PartIterator, Proof } from './reading.ts';

/** What a body tells its worker. */
export interface BodyPort {
  /** The reader has asked for one more part than the worker may send. */
  wanted(): void;
  /** The reader needs this part no more. */
  released(bytes: Bytes): void;
  /** The reader wants no more. */
  givenUp(): void;
}

interface Waiting {
  readonly resolve: (result: IteratorResult<Bytes, undefined>) => void;
  readonly reject: (error: unknown) => void;
}

const FINISHED = { done: true, value: undefined } as const;

/** The worker's end. After `end` or `fail` nothing more may come. */
export class BodyFeed {
  readonly body: Body;
  readonly #port: BodyPort;
  readonly #parts: Bytes[] = [];
  readonly #readers: Waiting[] = [];
  /** What the reader may give back: the worker has no use for a last part, which is of any size. */
  readonly #lent = new WeakMap<Uint8Array, Bytes>();
  readonly #done = createDeferred<Proof>();
  /** Nothing more will come from the worker. */
  #outcome: { readonly kind: 'ended' } | { readonly kind: 'failed'; readonly error: unknown } | undefined;
  #asked = 0;

  constructor(head: BodyHead, port: BodyPort) {
    this.#port = port;
    this.body = { kind: 'body', ...head, parts: this.#iterator(), done: this.#done.promise };
  }

  part(bytes: Bytes): void {
    // What was on its way when the reading was given up is dropped.
    if (this.#outcome !== undefined) return;
    this.#lent.set(bytes, bytes);
    this.#give(bytes);
  }

  end(bytes: Bytes, proof: Proof): void {
    if (this.#outcome !== undefined) return;
    this.#outcome = { kind: 'ended' };
    this.#give(bytes);
    this.#done.resolve(proof);
    for (const reader of this.#readers.splice(0)) reader.resolve(FINISHED);
  }

  fail(error: unknown): void {
    if (this.#outcome !== undefined) return;
    this.#outcome = { kind: 'failed', error };
    this.#parts.length = 0;
    this.#done.reject(error);
    for (const reader of this.#readers.splice(0)) reader.reject(error);
  }

  #give(bytes: Bytes): void {
    const reader = this.#readers.shift();
    if (reader === undefined) this.#parts.push(bytes);
    else reader.resolve({ done: false, value: bytes });
  }

  #iterator(): PartIterator {
    const iterator: PartIterator = {
      [Symbol.asyncIterator]: () => iterator,
      next: () => this.#next(),
      release: (part) => this.#release(part),
      return: () => this.#giveUp(),
    };
    return iterator;
  }

  #next(): Promise<IteratorResult<Bytes, undefined>> {
    const part = this.#parts.shift();
    this.#asked += 1;
    // The first part needs no asking, so that it is there when the upload begins.
    if (this.#asked > 1 && this.#outcome === undefined) this.#port.wanted();
    if (part !== undefined) return Promise.resolve({ done: false, value: part });
    if (this.#outcome?.kind === 'ended') return Promise.resolve(FINISHED);
    if (this.#outcome?.kind === 'failed') return Promise.reject(this.#outcome.error);
    return new Promise((resolve, reject) => this.#readers.push({ resolve, reject }));
  }

  #release(part: Uint8Array): void {
    const bytes = this.#lent.get(part);
    if (bytes === undefined) return;
    this.#lent.delete(part);
    this.#port.released(bytes);
  }

  #giveUp(): Promise<IteratorResult<Bytes, undefined>> {
    if (this.#outcome === undefined) {
      this.#port.givenUp();
      this.fail(new Error('the reading was given up'));
    }
    this.#parts.length = 0;
    return Promise.resolve(FINISHED);
  }
}
