// One worker as the pool sees it: runs one read at a time on its thread, and turns the thread's messages into the
// answer, which may be a body. It replaces a thread that died, and ends an idle thread that holds memory.
import type { Fingerprint } from '../model/file/file-state.ts';
import { showPath } from '../model/path.ts';
import type { WorkDir } from '../native/beneath.ts';
import { newDeferred, type Deferred } from '../model/waiting.ts';
import { releaseMemory } from '../native/memory.ts';
import {
  type Body,
  type BodyHead,
  type Digest,
  type FromWorker,
  type PartIterator,
  type Proof,
  type Reading,
  type ToWorker,
  SnapshotMoved,
  wholeBody,
  type WorkerAnswer,
  type WorkerRequest,
} from './reading.ts';

/** A new thread takes about 30 ms: after this long, nobody minds that delay. */
const IDLE_MS = 30_000;
/** An idle thread may keep this much: not worth a new thread. */
const LITTLE_BYTES = 2 ** 20;

/**
 * How long to wait for the job of a task that leaves: a thread in a read(2) of a dead file server gets no messages.
 */
const LEAVE_MS = 2000;

/** One of the tasks that share the workers. */
export interface PoolClient {
  readonly root: WorkDir;
  /** It has left: nothing is read for it any more. */
  isClosed: boolean;
}

/** One call to the workers, until its answer. Only the first answer counts. */
export interface ReadCall {
  readonly of: PoolClient;
  readonly work: WorkerRequest['work'];
  /** Aborts when the caller gives up, whatever the state of the call. */
  readonly signal: AbortSignal | undefined;
  /** The file is known to have more than one part. */
  large: boolean;
  /** The state of the file in an earlier `fresh` answer. */
  seen: Fingerprint | undefined;
  resolve(answer: Reading | Digest): void;
  reject(error: unknown): void;
}

export interface WorkerThread {
  post(message: ToWorker): void;
  /** Ends the current job and then the thread. Never rejects. */
  close(): Promise<void>;
}

export interface WorkerEvents {
  readonly message: (message: FromWorker) => void;
  /** The thread exited without being asked to. */
  readonly death: (error: Error) => void;
}

export interface WorkerRunnerOptions {
  readonly start: (events: WorkerEvents) => WorkerThread;
  /** Takes only files of one part. */
  readonly smallOnly: boolean;
  /** Its thread stays when idle, unless it holds the buffers of large files. */
  readonly staysWarm: boolean;
  /** The worker can take another call. */
  readonly onFree: () => void;
  /** The call has no answer yet: retry it, at once or after `waitMs`. */
  readonly onRetry: (task: ReadCall, waitMs: number) => void;
}

interface Running {
  readonly task: ReadCall;
  feed: BodyFeed | undefined;
  /** Nobody will read a body that has not begun. */
  isGivenUp: boolean;
  readonly stopListening: () => void;
}

type LastPart = Extract<WorkerAnswer, { readonly kind: 'end' }>;

export class WorkerRunner {
  readonly #options: WorkerRunnerOptions;
  #thread: WorkerThread | undefined;
  #running: Running | undefined;
  #holdsBuffers = false;
  readonly #freed: (() => void)[] = [];
  #idleTimer: NodeJS.Timeout | undefined;

  constructor(options: WorkerRunnerOptions) {
    this.#options = options;
  }

  /** The task that it reads for now. */
  get reader(): PoolClient | undefined {
    return this.#running?.task.of;
  }

  /** Can it start this call now? */
  takes(task: ReadCall): boolean {
    return this.#running === undefined && !(task.large && this.#options.smallOnly);
  }

  run(task: ReadCall): void {
    clearTimeout(this.#idleTimer);
    const stopListening = onAbort(task, (reason) => {
      this.#fail(reason);
      if (this.#running !== undefined) this.#running.isGivenUp = true;
      this.#thread?.post({ kind: 'cancel' });
    });
    this.#running = { task, feed: undefined, isGivenUp: false, stopListening };
    const { work, seen, of } = task;
    // Only these two fields: messages to a thread must be plain data.
    const root = { fd: of.root.fd, path: of.root.path };
    this.#started().post({ kind: 'job', request: { root, work, seen, smallOnly: this.#options.smallOnly } });
  }

  /** Fails the reader's current job. Resolves when the thread has none of its files open. */
  async leave(of: PoolClient, why: Error): Promise<void> {
    const running = this.#running;
    if (running?.task.of !== of) return;
    this.#fail(why);
    running.isGivenUp = true;
    this.#thread?.post({ kind: 'cancel' });
    await this.#freedWithin(LEAVE_MS);
    if (this.#running !== running) return;
    const thread = this.#thread;
    this.#thread = undefined;
    await thread?.close();
    if (this.#running === running) this.#free();
  }

  /** Fails the current job and ends the thread. */
  async close(): Promise<void> {
    clearTimeout(this.#idleTimer);
    this.#fail(new Error('the workers are closed'));
    await this.#thread?.close();
  }

  #freedWithin(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#freed.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #started(): WorkerThread {
    this.#thread ??= this.#options.start({
      message: (message) => this.#receive(message),
      death: (error) => this.#died(error),
    });
    return this.#thread;
  }

  #receive(message: FromWorker): void {
    switch (message.kind) {
      case 'begin':
        this.#holdsBuffers = true;
        return this.#begin(message.head);
      case 'part':
        return this.#running?.feed === undefined
          ? this.#giveBack(message.bytes)
          : this.#running.feed.part(message.bytes);
      case 'answer':
        this.#answer(message.answer);
        return this.#free();
      case 'failed':
        this.#fail(Object.assign(new Error(message.message), { code: message.code }));
        return this.#free();
      case 'cancelled':
        return this.#free();
    }
  }

  #begin(head: BodyHead): void {
    const running = this.#running;
    if (running === undefined || running.isGivenUp) return;
    running.feed = new BodyFeed(
      head,
      (message) => this.#thread?.post(message),
      (bytes) => this.#giveBack(bytes),
    );
    running.task.resolve(running.feed.body);
  }

  /** Returns memory to the thread for reuse, or to the kernel if there is no thread. */
  #giveBack(bytes: Uint8Array): void {
    if (this.#thread === undefined) releaseMemory(bytes);
    else this.#thread.post({ kind: 'give-back', bytes });
  }

  #answer(answer: WorkerAnswer): void {
    const running = this.#running;
    if (running === undefined) return;
    const { task, feed } = running;
    switch (answer.kind) {
      case 'end':
        return this.#end(running, answer);
      case 'large':
        task.large = true;
        return this.#options.onRetry(task, 0);
      case 'fresh':
        task.seen = answer.facts;
        return this.#options.onRetry(task, answer.waitMs);
      case 'writer':
      case 'moved':
        if (feed !== undefined)
          return feed.fail(new SnapshotMoved(task.work.job.path, answer.kind === 'writer'));
        return task.resolve(answer);
      case 'gone':
      case 'refused':
      case 'unchanged':
      case 'md5':
        return task.resolve(answer);
    }
  }

  #end({ task, feed, isGivenUp }: Running, { head, bytes, proof }: LastPart): void {
    if (isGivenUp && feed === undefined) return this.#giveBack(bytes);
    if (head === undefined) return feed?.end(bytes, proof);
    if (bytes.length > LITTLE_BYTES) this.#holdsBuffers = true;
    const giveBack = (done: Uint8Array): void => this.#giveBack(done);
    task.resolve(wholeBody({ ...head, bytes, proof, giveBack }));
  }

  /** The call is over for the caller; the worker is busy until the thread answers. */
  #fail(error: unknown): void {
    this.#running?.feed?.fail(error);
    this.#running?.task.reject(error);
  }

  #died(error: Error): void {
    this.#thread = undefined;
    if (this.#running === undefined) return;
    const name = showPath(this.#running.task.work.job.path);
    this.#fail(
      new Error(`cannot read ${name}: the thread that reads it died: ${error.message}`, { cause: error }),
    );
    this.#free();
  }

  #free(): void {
    this.#running?.stopListening();
    this.#running = undefined;
    for (const wake of this.#freed.splice(0)) wake();
    if (!this.#options.staysWarm || this.#holdsBuffers) {
      this.#idleTimer = setTimeout(() => this.#endThread(), IDLE_MS).unref();
    }
    this.#options.onFree();
  }

  #endThread(): void {
    const thread = this.#thread;
    this.#thread = undefined;
    this.#holdsBuffers = false;
    void thread?.close();
  }
}

/** Calls `giveUp` when the caller aborts; the returned function stops that. */
export function onAbort({ signal }: ReadCall, giveUp: (reason: unknown) => void): () => void {
  const listener = (): void => giveUp(signal?.reason);
  signal?.addEventListener('abort', listener, { once: true });
  return () => signal?.removeEventListener('abort', listener);
}

/** The messages of a body to its worker: send one more part, or give the file up. */
type FromReader = Extract<ToWorker, { kind: 'credit' | 'cancel' }>;

const FINISHED = { done: true, value: undefined } as const;

/**
 * The parts of one body, from the worker's messages to the reader's iterator: one part is with the reader, and one is
 * on its way. It never ends normally unless the worker has proven the file. No call may follow `end` or `fail`.
 */
class BodyFeed {
  readonly body: Body;
  readonly #tell: (message: FromReader) => void;
  readonly #giveBack: (bytes: Uint8Array) => void;
  readonly #parts: Uint8Array[] = [];
  readonly #readers: Omit<Deferred<IteratorResult<Uint8Array, undefined>>, 'promise'>[] = [];
  /** Parts that the reader has, or will get, and has not returned. */
  readonly #lent = new Set<Uint8Array>();
  readonly #done = newDeferred<Proof>();
  /**
   * Set once the worker sends nothing more for this body. The worker may be reading another file, so it gets no
   * message.
   */
  #outcome: { readonly kind: 'ended' } | { readonly kind: 'failed'; readonly error: unknown } | undefined;
  #asked = 0;

  constructor(head: BodyHead, tell: (message: FromReader) => void, giveBack: (bytes: Uint8Array) => void) {
    this.#tell = tell;
    this.#giveBack = giveBack;
    this.body = { kind: 'body', ...head, parts: this.#iterator(), done: this.#done.promise };
  }

  part(bytes: Uint8Array): void {
    // A part that was on its way when the reading was given up is dropped.
    if (this.#outcome === undefined) this.#give(bytes);
    else this.#giveBack(bytes);
  }

  end(bytes: Uint8Array, proof: Proof): void {
    if (this.#outcome !== undefined) return this.#giveBack(bytes);
    this.#outcome = { kind: 'ended' };
    this.#give(bytes);
    this.#done.resolve(proof);
    for (const reader of this.#readers.splice(0)) reader.resolve(FINISHED);
  }

  fail(error: unknown): void {
    if (this.#outcome !== undefined) return;
    this.#outcome = { kind: 'failed', error };
    for (const unread of this.#parts.splice(0)) this.#release(unread);
    this.#done.reject(error);
    for (const reader of this.#readers.splice(0)) reader.reject(error);
  }

  #give(bytes: Uint8Array): void {
    this.#lent.add(bytes);
    const reader = this.#readers.shift();
    if (reader === undefined) this.#parts.push(bytes);
    else reader.resolve({ done: false, value: bytes });
  }

  #iterator(): PartIterator {
    const iterator: PartIterator = {
      [Symbol.asyncIterator]: () => iterator,
      next: () => this.#next(),
      release: (part) => this.#release(part),
      return: () => this.#return(),
    };
    return iterator;
  }

  #next(): Promise<IteratorResult<Uint8Array, undefined>> {
    const part = this.#parts.shift();
    this.#asked += 1;
    // The first part needs no credit, so it is ready when the upload begins.
    if (this.#asked > 1 && this.#outcome === undefined) this.#tell({ kind: 'credit' });
    if (part !== undefined) return Promise.resolve({ done: false, value: part });
    if (this.#outcome?.kind === 'ended') return Promise.resolve(FINISHED);
    if (this.#outcome?.kind === 'failed') return Promise.reject(this.#outcome.error);
    return new Promise((resolve, reject) => this.#readers.push({ resolve, reject }));
  }

  #release(part: Uint8Array): void {
    if (this.#lent.delete(part)) this.#giveBack(part);
  }

  #return(): Promise<IteratorResult<Uint8Array, undefined>> {
    if (this.#outcome === undefined) {
      this.#tell({ kind: 'cancel' });
      this.fail(new Error('the reading was given up'));
    }
    this.#parts.length = 0;
    for (const part of this.#lent) this.#release(part);
    return Promise.resolve(FINISHED);
  }
}
