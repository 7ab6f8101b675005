// The reader's end of a body: turns a worker's parts into an async iterator, with one part in the reader's hands
// and one on its way. Never ends well unless the worker has proven the file.
import { createDeferred } from '../model/deferred.ts';
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

/** The worker's end. After `end` or `fail` nothing more may come. */
export interface BodyFeed {
  readonly body: Body;
  part(bytes: Bytes): void;
  end(bytes: Bytes, proof: Proof): void;
  fail(error: unknown): void;
}

interface Waiting {
  readonly resolve: (result: IteratorResult<Bytes, undefined>) => void;
  readonly reject: (error: unknown) => void;
}

const FINISHED = { done: true, value: undefined } as const;

export function openBody(head: BodyHead, port: BodyPort): BodyFeed {
  const parts: Bytes[] = [];
  const readers: Waiting[] = [];
  /** What the reader may give back: the worker has no use for a last part, which is of any size. */
  const lent = new WeakMap<Uint8Array, Bytes>();
  /** Nothing more will come from the worker. */
  let outcome: { readonly kind: 'ended' } | { readonly kind: 'failed'; readonly error: unknown } | undefined;
  let asked = 0;
  const done = createDeferred<Proof>();

  const fail = (error: unknown): void => {
    if (outcome !== undefined) return;
    outcome = { kind: 'failed', error };
    parts.length = 0;
    done.reject(error);
    for (const reader of readers.splice(0)) reader.reject(error);
  };
  const give = (bytes: Bytes): void => {
    const reader = readers.shift();
    if (reader === undefined) parts.push(bytes);
    else reader.resolve({ done: false, value: bytes });
  };

  const iterator: PartIterator = {
    [Symbol.asyncIterator]: () => iterator,
    next: () => {
      const part = parts.shift();
      asked += 1;
      // The first part needs no asking, so that it is there when the upload begins.
      if (asked > 1 && outcome === undefined) port.wanted();
      if (part !== undefined) return Promise.resolve({ done: false, value: part });
      if (outcome?.kind === 'ended') return Promise.resolve(FINISHED);
      if (outcome?.kind === 'failed') return Promise.reject(outcome.error);
      return new Promise((resolve, reject) => readers.push({ resolve, reject }));
    },
    release: (part) => {
      const bytes = lent.get(part);
      if (bytes === undefined) return;
      lent.delete(part);
      port.released(bytes);
    },
    return: () => {
      if (outcome === undefined) {
        port.givenUp();
        fail(new Error('the reading was given up'));
      }
      parts.length = 0;
      return Promise.resolve(FINISHED);
    },
  };

  return {
    body: { kind: 'body', ...head, parts: iterator, done: done.promise },
    // What was on its way when the reading was given up is dropped.
    part: (bytes) => {
      if (outcome !== undefined) return;
      lent.set(bytes, bytes);
      give(bytes);
    },
    fail,
    end: (bytes, proof) => {
      if (outcome !== undefined) return;
      outcome = { kind: 'ended' };
      give(bytes);
      done.resolve(proof);
      for (const reader of readers.splice(0)) reader.resolve(FINISHED);
    },
  };
}
