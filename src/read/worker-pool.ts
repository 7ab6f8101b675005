// The workers and the queue before them. The urgent go first; then the tasks of the machine take turns, and each task's
// files go in the order in which it asked. One worker is kept free of large files, so that a result of 64 KiB never waits
// behind a checkpoint of 10 GiB.
import { type RelPath, showPath } from '../model/path.ts';
import { partSizeBytes } from './encode.ts';
import type { Lanes } from './lanes.ts';
import type { Digest, RangeJob, Reading, ReadJob } from './reading.ts';
import { onAbort, type Reader, type Task, WorkerRunner, type WorkerRunnerOptions } from './worker-runner.ts';

/** A task that waits for its turn or, with a timer, until it may be asked again. */
interface Waiting {
  readonly task: Task;
  readonly stopListening: () => void;
  readonly timer: NodeJS.Timeout | undefined;
}

/** Of several tasks that share them: this one reads nothing but checkpoints, however many results wait. */
const FOR_CHECKPOINTS = 1;
/** With fewer none can be spared. */
const LEAST_FOR_THAT = 3;

export class WorkerPool {
  readonly #workers: readonly WorkerRunner[];
  readonly #lanes: Lanes;
  readonly #queue: Waiting[] = [];
  readonly #later = new Set<Waiting>();
  /** When each was last served, in turns. */
  readonly #readers = new Map<Reader, number>();
  #turn = 0;
  #isClosed = false;

  /** With two or more workers the first takes only files of one part. */
  constructor(lanes: Lanes, start: WorkerRunnerOptions['start']) {
    this.#lanes = lanes;
    this.#workers = Array.from(
      { length: lanes.most },
      (_, n) =>
        new WorkerRunner({
          start,
          smallOnly: n === 0 && lanes.most > 1,
          staysWarm: n === 0,
          onFree: () => this.#pump(),
          onRetry: (task, waitMs) =>
            waitMs > 0 ? this.#waitFor(task, waitMs) : this.#enqueue(task, 'first'),
        }),
    );
  }

  /** From now on it may ask. */
  enter(reader: Reader): void {
    this.#readers.set(reader, 0);
    this.#lanes.tasks = this.#readers.size;
  }

  /** What it has asked for fails. Resolves when nothing of it is open any more. */
  async leave(reader: Reader): Promise<void> {
    reader.isClosed = true;
    this.#readers.delete(reader);
    this.#lanes.tasks = Math.max(1, this.#readers.size);
    this.#drop((task) => task.of === reader);
    await Promise.all(this.#workers.map((worker) => worker.leave(reader, new Error(CLOSED))));
    // What was kept for checkpoints may be anybody's now.
    this.#pump();
  }

  /** `sizeBytes`: as far as it is known. */
  async read(of: Reader, job: ReadJob, sizeBytes: number, signal?: AbortSignal): Promise<Reading> {
    const large = sizeBytes > partSizeBytes(0);
    return bodyOf(job, await this.#submit({ of, work: { kind: 'read', job }, large, signal }));
  }

  async range(of: Reader, job: RangeJob, signal?: AbortSignal): Promise<Reading> {
    return bodyOf(job, await this.#submit({ of, work: { kind: 'range', job }, large: false, signal }));
  }

  async md5(of: Reader, path: RelPath, signal?: AbortSignal): Promise<Digest> {
    const work = { kind: 'md5', job: { path } } as const;
    const answer = await this.#submit({ of, work, large: false, signal });
    if (answer.kind === 'body' || answer.kind === 'unchanged') throw new Error(`no md5 of ${showPath(path)}`);
    return answer;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#drop(() => true);
    await Promise.all(this.#workers.map((worker) => worker.close()));
  }

  async #submit(asked: Pick<Task, 'of' | 'work' | 'large' | 'signal'>): Promise<Reading | Digest> {
    asked.signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      this.#enqueue({ ...asked, seen: undefined, resolve, reject }, 'last');
      this.#pump();
    });
  }

  /** These fail, of all that wait. */
  #drop(is: (task: Task) => boolean): void {
    for (const waiting of [...this.#queue, ...this.#later]) {
      const { task, stopListening, timer } = waiting;
      if (!is(task)) continue;
      clearTimeout(timer);
      stopListening();
      this.#later.delete(waiting);
      task.reject(closedError(task));
    }
    this.#queue.splice(0, Infinity, ...this.#queue.filter(({ task }) => !is(task)));
  }

  #enqueue(task: Task, place: 'first' | 'last'): void {
    if (this.#isClosed || task.of.isClosed) return task.reject(closedError(task));
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
    for (const [n, worker] of this.#workers.entries()) {
      const isKept = n === FOR_CHECKPOINTS && this.#readers.size > 1 && this.#lanes.most >= LEAST_FOR_THAT;
      const next = this.#nextOf((task) => worker.takes(task) && (!isKept || isUrgent(task)));
      if (next === undefined || !this.#lanes.take(n)) continue;
      this.#queue.splice(this.#queue.indexOf(next), 1);
      this.#turn += 1;
      this.#readers.set(next.task.of, this.#turn);
      next.stopListening();
      worker.run(next.task);
    }
  }

  #nextOf(isPossible: (task: Task) => boolean): Waiting | undefined {
    let next: Waiting | undefined;
    for (const waiting of this.#queue)
      if (isPossible(waiting.task) && (next === undefined || this.#isBefore(waiting.task, next.task)))
        next = waiting;
    return next;
  }

  #isBefore(a: Task, b: Task): boolean {
    if (isUrgent(a) !== isUrgent(b)) return isUrgent(a);
    return (this.#readers.get(a.of) ?? 0) < (this.#readers.get(b.of) ?? 0);
  }
}

function bodyOf({ path }: Pick<ReadJob, 'path'>, answer: Reading | Digest): Reading {
  if (answer.kind === 'md5') throw new Error(`no body of ${showPath(path)}`);
  return answer;
}

function isUrgent({ work }: Task): boolean {
  return work.kind === 'read' && work.job.urgent === true;
}

const CLOSED = 'the workers are closed';

function closedError(task: Task): Error {
  return new Error(`cannot read ${showPath(task.work.job.path)}: ${CLOSED}`);
}
