// The workers and their queue. Urgent jobs go first; then the tasks of the machine take turns, and each task's files
// are read in the order of its calls. One worker takes no large files, so a result of 64 KiB never waits behind a
// checkpoint of 10 GiB.
import { type RelPath, showPath } from '../model/path.ts';
import { partSizeBytes } from '../model/file/part-size.ts';
import type { WorkerLimit } from './worker-limit.ts';
import type { Digest, RangeJob, Reading, ReadJob } from './reading.ts';
import {
  onAbort,
  type PoolClient,
  type ReadCall,
  WorkerRunner,
  type WorkerRunnerOptions,
} from './worker-runner.ts';

/** A read that waits for its turn or, with a timer, until it may be retried. */
interface Waiting {
  readonly task: ReadCall;
  readonly stopListening: () => void;
  readonly timer: NodeJS.Timeout | undefined;
}

/** With shared workers, this many read only checkpoints, however many results wait. */
const CHECKPOINT_WORKERS = 1;
/** With fewer workers none can be reserved. */
const LEAST_TO_RESERVE = 3;

export class WorkerPool {
  readonly #workers: readonly WorkerRunner[];
  readonly #lanes: WorkerLimit;
  readonly #queue: Waiting[] = [];
  readonly #later = new Set<Waiting>();
  /** When each reader was last served, as a turn number. */
  readonly #readers = new Map<PoolClient, number>();
  #turn = 0;
  #isClosed = false;

  /** With two or more workers, the first takes only files of one part. */
  constructor(lanes: WorkerLimit, start: WorkerRunnerOptions['start']) {
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

  /** From now on the reader may call `read`. */
  join(reader: PoolClient): void {
    this.#readers.set(reader, 0);
    this.#lanes.tasks = this.#readers.size;
  }

  /** Its pending reads fail. Resolves when none of its files is open any more. */
  async leave(reader: PoolClient): Promise<void> {
    reader.isClosed = true;
    this.#readers.delete(reader);
    this.#lanes.tasks = Math.max(1, this.#readers.size);
    this.#drop((task) => task.of === reader);
    await Promise.all(this.#workers.map((worker) => worker.leave(reader, new Error(CLOSED))));
    // A worker that was reserved for checkpoints may be free for any file now.
    this.#pump();
  }

  /** `sizeBytes`: as far as known. */
  async read(of: PoolClient, job: ReadJob, sizeBytes: number, signal?: AbortSignal): Promise<Reading> {
    const large = sizeBytes > partSizeBytes(0);
    return bodyOf(job, await this.#submit({ of, work: { kind: 'read', job }, large, signal }));
  }

  async range(of: PoolClient, job: RangeJob, signal?: AbortSignal): Promise<Reading> {
    return bodyOf(job, await this.#submit({ of, work: { kind: 'range', job }, large: false, signal }));
  }

  async md5(of: PoolClient, path: RelPath, signal?: AbortSignal): Promise<Digest> {
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

  async #submit(asked: Pick<ReadCall, 'of' | 'work' | 'large' | 'signal'>): Promise<Reading | Digest> {
    asked.signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      this.#enqueue({ ...asked, seen: undefined, resolve, reject }, 'last');
      this.#pump();
    });
  }

  /** These pending reads fail. */
  #drop(is: (task: ReadCall) => boolean): void {
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

  #enqueue(task: ReadCall, place: 'first' | 'last'): void {
    if (this.#isClosed || task.of.isClosed) return task.reject(closedError(task));
    // Cancelled while its worker decided on a retry: the caller knows already.
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

  #waitFor(task: ReadCall, waitMs: number): void {
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
      const isKept =
        n === CHECKPOINT_WORKERS && this.#readers.size > 1 && this.#lanes.most >= LEAST_TO_RESERVE;
      let allows: boolean | undefined;
      const mayRun = ({ of }: ReadCall): boolean => this.#isHeldUp(of) || (allows ??= this.#lanes.allows(n));
      const next = this.#nextOf((task) => worker.takes(task) && (!isKept || isUrgent(task)) && mayRun(task));
      if (next === undefined) continue;
      this.#lanes.started();
      this.#queue.splice(this.#queue.indexOf(next), 1);
      this.#turn += 1;
      this.#readers.set(next.task.of, this.#turn);
      next.stopListening();
      worker.run(next.task);
    }
  }

  /** All files that are being read are those of one other task. That may take hours, so no idle core is needed. */
  #isHeldUp(reader: PoolClient): boolean {
    const [first, ...others] = this.#workers.flatMap(({ reader: one }) => one ?? []);
    return first !== undefined && first !== reader && others.every((one) => one === first);
  }

  #nextOf(isPossible: (task: ReadCall) => boolean): Waiting | undefined {
    let next: Waiting | undefined;
    for (const waiting of this.#queue)
      if (isPossible(waiting.task) && (next === undefined || this.#isBefore(waiting.task, next.task)))
        next = waiting;
    return next;
  }

  #isBefore(a: ReadCall, b: ReadCall): boolean {
    if (isUrgent(a) !== isUrgent(b)) return isUrgent(a);
    return (this.#readers.get(a.of) ?? 0) < (this.#readers.get(b.of) ?? 0);
  }
}

function bodyOf({ path }: Pick<ReadJob, 'path'>, answer: Reading | Digest): Reading {
  if (answer.kind === 'md5') throw new Error(`no body of ${showPath(path)}`);
  return answer;
}

function isUrgent({ work }: ReadCall): boolean {
  return work.kind === 'read' && work.job.urgent === true;
}

const CLOSED = 'the workers are closed';

function closedError(task: ReadCall): Error {
  return new Error(`cannot read ${showPath(task.work.job.path)}: ${CLOSED}`);
}
