// Read this first. The way into reading: what the upload calls. A small file is read at once, on the thread that asks;
// all others go to the pool of workers below, which never blocks that thread.
import fs from 'node:fs';
import { Worker } from 'node:worker_threads';
import { type RelPath, showPath } from '../model/path.ts';
import type { WorkDir } from '../native/beneath.ts';
import { idleCores } from '../native/idle-cores.ts';
import { partSizeBytes } from './encode.ts';
import { Lanes } from './lanes.ts';
import { SmallFiles } from './small-file.ts';
import {
  type CompressorName,
  type Digest,
  type RangeJob,
  type Reading,
  type ReadJob,
  type ToWorker,
  type WorkerData,
} from './reading.ts';
import {
  onAbort,
  type Task,
  type WorkerEvents,
  WorkerRunner,
  type WorkerRunnerOptions,
  type WorkerThread,
} from './worker-runner.ts';

/**
 * JavaScript's share only: buffers and zstd's memory do not count. A worker needs about 6 MiB of it; V8 looks for
 * garbage when half of it is taken.
 */
const HEAP_MB = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4 };
/** A worker in the middle of a read(2) of a dead file server hears nothing. */
const CLOSE_MS = 2000;

export interface WorkersOptions {
  /** Stays the caller's. */
  readonly root: WorkDir;
  /** Workers at most; with two or more the first is kept for files of one part. `auto`: see `Lanes`. */
  readonly count: number | 'auto';
  /** How many cores have nothing to do now; asked when all workers are busy. The machine's, if it is left out. */
  readonly idleCores?: () => number;
  /** Files up to this size are read on the calling thread; 0: none. */
  readonly smallBytes: number;
  /** The bundled src/read/worker.ts. */
  readonly entry: URL | string;
  /** Where spools are made; undefined: nowhere. */
  readonly spoolDir?: string;
  /** Size of one spool at most. */
  readonly spoolLimitBytes: number;
}

export interface Workers {
  /**
   * One consistent reading of a file beneath the root. Every state of the file is an answer; throws when it
   * cannot be read (EIO) or its worker died. `signal` holds for the body too: its abort ends the parts.
   */
  read(job: ReadJob, signal?: AbortSignal): Promise<Reading>;
  /**
   * The end of a file that is being appended to, whoever has it open. `moved` when the file is shorter than
   * the range's end, or another file stands at its path.
   */
  range(job: RangeJob, signal?: AbortSignal): Promise<Reading>;
  /** The md5 of one consistent reading, without a body. */
  md5(path: RelPath, signal?: AbortSignal): Promise<Digest>;
  /** What compresses here; `none` deserves a warning. */
  compressor(): Promise<CompressorName>;
  /** Gives up all that is under way, which then throws, and ends the threads. */
  close(): Promise<void>;
}

/** Workers start on first use. Installs a SIGIO handler, without which a lease could end the process. */
export function openWorkers(options: WorkersOptions): Workers {
  const { root, count, smallBytes, entry, spoolDir, spoolLimitBytes } = options;
  const lanes = new Lanes(count, options.idleCores ?? idleCores);
  if (!process.listeners('SIGIO').includes(ignoreLeaseBreak)) process.on('SIGIO', ignoreLeaseBreak);
  const spool = spoolDir === undefined ? undefined : { dir: spoolDir, limitBytes: spoolLimitBytes };
  // Two fields only: what crosses to a thread must be plain data.
  const data: WorkerData = { root: { fd: root.fd, path: root.path }, spool };
  const pool = new WorkerPool(lanes, (events) => startThread(entry, data, events));
  const small = new SmallFiles(root, smallBytes);
  return {
    read: async (job, signal) => {
      if (smallBytes === 0) return pool.read(job, job.expected?.size ?? 0, signal);
      const reading = await small.read(job, signal);
      return reading.kind === 'elsewhere' ? pool.read(job, reading.sizeBytes, signal) : reading;
    },
    range: (job, signal) => pool.range(job, signal),
    md5: (path, signal) => pool.md5(path, signal),
    compressor: async () => (await small.compressor())?.name ?? 'none',
    close: async () => {
      small.close();
      await pool.close();
    },
  };
}

/** A writer that opens a file in the moment of our lease sends SIGIO, whose default action is to end us. */
function ignoreLeaseBreak(): void {}

/** A task that waits for its turn or, with a timer, until it may be asked again. */
interface Waiting {
  readonly task: Task;
  readonly stopListening: () => void;
  readonly timer: NodeJS.Timeout | undefined;
}

/**
 * One queue, the urgent first, else first come first served, and one worker kept free of large files, so that a result
 * of 64 KiB never waits behind a checkpoint of 10 GiB.
 */
class WorkerPool {
  readonly #workers: readonly WorkerRunner[];
  readonly #lanes: Lanes;
  readonly #queue: Waiting[] = [];
  readonly #later = new Set<Waiting>();
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

  /** `sizeBytes`: as far as it is known. */
  async read(job: ReadJob, sizeBytes: number, signal?: AbortSignal): Promise<Reading> {
    const isLarge = sizeBytes > partSizeBytes(0);
    return bodyOf(job, await this.#submit({ kind: 'read', job }, isLarge, signal));
  }

  async range(job: RangeJob, signal?: AbortSignal): Promise<Reading> {
    return bodyOf(job, await this.#submit({ kind: 'range', job }, false, signal));
  }

  async md5(path: RelPath, signal?: AbortSignal): Promise<Digest> {
    const answer = await this.#submit({ kind: 'md5', job: { path } }, false, signal);
    if (answer.kind === 'body' || answer.kind === 'unchanged') throw new Error(`no md5 of ${showPath(path)}`);
    return answer;
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

  /** `large`: the file is known to be of more than one part. */
  async #submit(work: Task['work'], large: boolean, signal?: AbortSignal): Promise<Reading | Digest> {
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      this.#enqueue({ work, large, signal, seen: undefined, resolve, reject }, 'last');
      this.#pump();
    });
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
    for (const [n, worker] of this.#workers.entries()) {
      const urgentAt = this.#queue.findIndex(({ task }) => isUrgent(task) && worker.takes(task));
      const at = urgentAt >= 0 ? urgentAt : this.#queue.findIndex(({ task }) => worker.takes(task));
      if (at < 0 || !this.#lanes.take(n)) continue;
      const [next] = this.#queue.splice(at, 1);
      if (next === undefined) continue;
      next.stopListening();
      worker.run(next.task);
    }
  }
}

function bodyOf({ path }: Pick<ReadJob, 'path'>, answer: Reading | Digest): Reading {
  if (answer.kind === 'md5') throw new Error(`no body of ${showPath(path)}`);
  return answer;
}

function isUrgent({ work }: Task): boolean {
  return work.kind === 'read' && work.job.urgent === true;
}

function closedError(task: Task): Error {
  return new Error(`cannot read ${showPath(task.work.job.path)}: the workers are closed`);
}

/** The thread of one worker. Knows nothing of jobs. */
export function startThread(entry: URL | string, data: WorkerData, events: WorkerEvents): WorkerThread {
  leaveLostDirectory();
  const worker = new Worker(entry, {
    workerData: data,
    // Without these two Node opens process.stdout and process.stderr, which are the task's own.
    stdout: true,
    stderr: true,
    // Files are opened by openat2(2), which Node knows nothing of: it would warn at each close, for ever kept.
    trackUnmanagedFds: false,
    execArgv: [],
    resourceLimits: HEAP_MB,
  });
  // What nobody reads would be kept: 2 KiB for each file, once.
  worker.stdout.resume();
  worker.stderr.resume();
  let isClosing = false;
  let failure: Error | undefined;
  worker.on('message', events.message);
  worker.on('error', (error) => {
    failure = error instanceof Error ? error : new Error(String(error));
  });
  const gone = new Promise<void>((resolve) => {
    worker.once('exit', (status) => {
      resolve();
      if (!isClosing) events.death(failure ?? new Error(`it ended with status ${status}`));
    });
  });
  return {
    post: (message) => worker.postMessage(message),
    close: async () => {
      isClosing = true;
      worker.postMessage({ kind: 'close' } satisfies ToWorker);
      const timer = setTimeout(() => void worker.terminate(), CLOSE_MS);
      await gone;
      clearTimeout(timer);
    },
  };
}

/** Where the task has removed the directory that we stand in, no thread can start: getcwd(3) is ENOENT there. */
function leaveLostDirectory(): void {
  try {
    fs.realpathSync.native('.');
  } catch {
    process.chdir('/');
  }
}
