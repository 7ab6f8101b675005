// One worker as the pool sees it: runs one task at a time on its thread, replaces a thread that died, and ends
// one that has nothing to do but holds memory.
import type { Fingerprint } from '../model/file/file-state.ts';
import { showPath } from '../model/path.ts';
import { BodyFeed } from './body.ts';
import {
  type BodyHead,
  type CompressorName,
  type Digest,
  type FromWorker,
  pathOf,
  type Reading,
  SnapshotMoved,
  type WorkerAnswer,
  type WorkerData,
  type WorkerRequest,
} from './reading.ts';
import { startThread, type WorkerThread } from './worker-thread.ts';

/** A new thread takes some 30 ms: less than anybody waits for who comes back after this. */
const IDLE_MS = 30_000;

/** One call to the workers on its way to its answer. Only the first answer counts. */
export interface Task {
  readonly work: WorkerRequest['work'];
  /** The caller gives it up, wherever it is. */
  readonly signal: AbortSignal | undefined;
  /** The file is known to be of more than one part. */
  large: boolean;
  /** The state of the file in an earlier `fresh` answer. */
  seen: Fingerprint | undefined;
  resolve(answer: Reading | Digest): void;
  reject(error: unknown): void;
}

export interface WorkerRunnerOptions {
  readonly entry: URL | string;
  readonly data: WorkerData;
  /** Takes only files of one part. */
  readonly smallOnly: boolean;
  /** Its thread stays, unless it holds the buffers of large files. */
  readonly staysWarm: boolean;
  /** The worker can take a task again. */
  readonly onFree: () => void;
  /** The task has no answer yet: to be asked again, at once or after `waitMs`. */
  readonly onRetry: (task: Task, waitMs: number) => void;
}

interface Running {
  readonly task: Task;
  feed: BodyFeed | undefined;
  readonly stopListening: () => void;
}

/** Who waits for the thread's first word. */
interface Greeter {
  readonly resolve: (name: CompressorName) => void;
  readonly reject: (error: Error) => void;
}

export class WorkerRunner {
  readonly #options: WorkerRunnerOptions;
  #thread: WorkerThread | undefined;
  #compressor: CompressorName | undefined;
  readonly #greeters: Greeter[] = [];
  #running: Running | undefined;
  #holdsBuffers = false;
  #idleTimer: NodeJS.Timeout | undefined;

  constructor(options: WorkerRunnerOptions) {
    this.#options = options;
  }

  /** Can it start this task now? */
  takes(task: Task): boolean {
    return this.#running === undefined && !(task.large && this.#options.smallOnly);
  }

  run(task: Task): void {
    clearTimeout(this.#idleTimer);
    const stopListening = onAbort(task, (reason) => {
      this.#fail(reason);
      this.#thread?.post({ kind: 'cancel' });
    });
    this.#running = { task, feed: undefined, stopListening };
    const { work, seen } = task;
    this.#started().post({ kind: 'job', request: { work, seen, smallOnly: this.#options.smallOnly } });
  }

  /** What compresses here. Rejects when the thread cannot start. */
  compressor(): Promise<CompressorName> {
    this.#started();
    if (this.#compressor !== undefined) return Promise.resolve(this.#compressor);
    return new Promise((resolve, reject) => this.#greeters.push({ resolve, reject }));
  }

  /** Fails what is under way and ends the thread. */
  async close(): Promise<void> {
    clearTimeout(this.#idleTimer);
    this.#fail(new Error('the workers are closed'));
    this.#greet((greeter) => greeter.reject(new Error('the workers are closed')));
    await this.#thread?.close();
  }

  #started(): WorkerThread {
    this.#thread ??= startThread(this.#options.entry, this.#options.data, {
      message: (message) => this.#receive(message),
      death: (error) => this.#died(error),
    });
    return this.#thread;
  }

  #receive(message: FromWorker): void {
    switch (message.kind) {
      case 'hello':
        this.#compressor = message.compressor;
        return this.#greet((greeter) => greeter.resolve(message.compressor));
      case 'begin':
        this.#holdsBuffers = true;
        this.#begin(message.head);
        return;
      case 'part':
        return this.#running?.feed?.part(message.bytes);
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

  #begin(head: BodyHead): BodyFeed | undefined {
    const running = this.#running;
    if (running === undefined) return undefined;
    // After the last part the thread may be at another file: what the reader then says must not reach it.
    const post = (kind: 'credit' | 'cancel'): void => {
      if (this.#running === running) this.#thread?.post({ kind });
    };
    running.feed = new BodyFeed(head, {
      wanted: () => post('credit'),
      givenUp: () => post('cancel'),
      released: (bytes) => this.#thread?.post({ kind: 'give-back', bytes }),
    });
    running.task.resolve(running.feed.body);
    return running.feed;
  }

  #answer(answer: WorkerAnswer): void {
    const running = this.#running;
    if (running === undefined) return;
    const { task, feed } = running;
    switch (answer.kind) {
      case 'end':
        return (answer.head === undefined ? feed : this.#begin(answer.head))?.end(answer.bytes, answer.proof);
      case 'large':
        task.large = true;
        return this.#options.onRetry(task, 0);
      case 'fresh':
        task.seen = answer.facts;
        return this.#options.onRetry(task, answer.waitMs);
      case 'writer':
      case 'moved':
        if (feed !== undefined)
          return feed.fail(new SnapshotMoved(pathOf(task.work), answer.kind === 'writer'));
        return task.resolve(answer);
      case 'gone':
      case 'refused':
      case 'unchanged':
      case 'md5':
        return task.resolve(answer);
    }
  }

  /** The caller's part of the task is over; the worker's is when the thread says so. */
  #fail(error: unknown): void {
    this.#running?.feed?.fail(error);
    this.#running?.task.reject(error);
  }

  #died(error: Error): void {
    this.#thread = undefined;
    this.#compressor = undefined;
    this.#greet((greeter) => greeter.reject(error));
    if (this.#running === undefined) return;
    const name = showPath(pathOf(this.#running.task.work));
    this.#fail(
      new Error(`cannot read ${name}: the thread that reads it died: ${error.message}`, { cause: error }),
    );
    this.#free();
  }

  #greet(tell: (greeter: Greeter) => void): void {
    for (const greeter of this.#greeters.splice(0)) tell(greeter);
  }

  #free(): void {
    this.#running?.stopListening();
    this.#running = undefined;
    if (!this.#options.staysWarm || this.#holdsBuffers) {
      this.#idleTimer = setTimeout(() => this.#endThread(), IDLE_MS).unref();
    }
    this.#options.onFree();
  }

  #endThread(): void {
    const thread = this.#thread;
    this.#thread = undefined;
    this.#compressor = undefined;
    this.#holdsBuffers = false;
    void thread?.close();
  }
}

/** Calls `giveUp` when the caller aborts; the function that comes back ends that. */
export function onAbort({ signal }: Task, giveUp: (reason: unknown) => void): () => void {
  const listener = (): void => giveUp(signal?.reason);
  signal?.addEventListener('abort', listener, { once: true });
  return () => signal?.removeEventListener('abort', listener);
}
