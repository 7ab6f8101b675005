// The pool of workers on the main thread: one queue, the urgent first, else first come first served, and one worker
// kept free of large files, so that a result of 64 KiB never waits behind a checkpoint of 10 GiB.
import { showPath } from '../model/path.ts';
import { onAbort, pathOf, type Task } from './job.ts';
import type { Digest, Reading } from './reading.ts';
import type { CompressorName } from './worker-messages.ts';
import { WorkerRunner, type WorkerRunnerOptions } from './worker-runner.ts';

/** A task that waits for its turn or, with a timer, until it may be asked again. */
interface Waiting {
  readonly task: Task;
  readonly stopListening: () => void;
  readonly timer: NodeJS.Timeout | undefined;
}

export class WorkerPool {
  readonly #workers: readonly WorkerRunner[];
  readonly #queue: Waiting[] = [];
  readonly #later = new Set<Waiting>();
  #isClosed = false;

  /** With two or more workers the first takes only files of one part. */
  constructor(count: number, options: Pick<WorkerRunnerOptions, 'entry' | 'data'>) {
    this.#workers = Array.from(
      { length: Math.max(1, count) },
      (_, n) =>
        new WorkerRunner({
          ...options,
          smallOnly: n === 0 && count > 1,
          staysWarm: n === 0,
          onFree: () => this.#pump(),
          onRetry: (task, waitMs) =>
            waitMs > 0 ? this.#waitFor(task, waitMs) : this.#enqueue(task, 'first'),
        }),
    );
  }

  /** `large`: the file is known to be of more than one part. */
  async submit(work: Task['work'], large: boolean, signal?: AbortSignal): Promise<Reading | Digest> {
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      this.#enqueue({ work, large, signal, seen: undefined, resolve, reject }, 'last');
      this.#pump();
    });
  }

  async compressor(): Promise<CompressorName> {
    const [first] = this.#workers;
    if (first === undefined || this.#isClosed) throw new Error('the workers are closed');
    return first.compressor();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { task, stopListening, timer } of [...this.#queue.splice(0), ...this.#later]) {
      clearTimeout(timer);
      stopListening();
      task.reject(closedError(task));
    }
    this.#later.clear();
    await Promise.all(this.#workers.map((worker) => worker.close()));
  }

  #enqueue(task: Task, place: 'first' | 'last'): void {
    if (this.#isClosed) return task.reject(closedError(task));
    // Given up while its worker found out that it has to come again: the caller knows already.
    if (task.signal?.aborted === true) return;
    const waiting: Waiting = {
      task,
      timer: undefined,
      stopListening: onAbort(task, (reason) => {
        this.#queue.splice(this.#queue.indexOf(waiting), 1);
        task.reject(reason);
      }),
    };
    if (place === 'first') this.#queue.unshift(waiting);
    else this.#queue.push(waiting);
  }

  #waitFor(task: Task, waitMs: number): void {
    const leave = (): void => {
      clearTimeout(waiting.timer);
      waiting.stopListening();
      this.#later.delete(waiting);
    };
    const waiting: Waiting = {
      task,
      timer: setTimeout(() => {
        leave();
        this.#enqueue(task, 'first');
        this.#pump();
      }, waitMs),
      stopListening: onAbort(task, (reason) => {
        leave();
        task.reject(reason);
      }),
    };
    this.#later.add(waiting);
  }

  #pump(): void {
    if (this.#isClosed) return;
    for (const worker of this.#workers) {
      const urgentAt = this.#queue.findIndex(({ task }) => isUrgent(task) && worker.takes(task));
      const at = urgentAt >= 0 ? urgentAt : this.#queue.findIndex(({ task }) => worker.takes(task));
      if (at < 0) continue;
      const [next] = this.#queue.splice(at, 1);
      if (next === undefined) continue;
      next.stopListening();
      worker.run(next.task);
    }
  }
}

function isUrgent({ work }: Task): boolean {
  return work.kind === 'read' && work.job.urgent === true;
}

function closedError(task: Task): Error {
  return new Error(`cannot read ${showPath(pathOf(task))}: the workers are closed`);
}
