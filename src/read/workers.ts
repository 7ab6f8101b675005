// Read this first. The way into reading: what the upload calls. A small file is read at once, on the thread that asks;
// all others go to the workers (worker-pool.ts), which never block that thread. Tasks that share a sidecar share its workers.
import fs from 'node:fs';
import { Worker } from 'node:worker_threads';
import type { RelPath } from '../model/path.ts';
import type { WorkDir } from '../native/beneath.ts';
import { ignoreLeaseBreaks } from '../native/files.ts';
import { idleCores } from '../native/idle-cores.ts';
import type { Buffers } from './buffers.ts';
import { compressorOfThread } from './encode.ts';
import { Lanes } from './lanes.ts';
import type { CompressorName, Digest, RangeJob, Reading, ReadJob, ToWorker, WorkerData } from './reading.ts';
import { newSmallBuffers, SmallFiles } from './small-file.ts';
import { WorkerPool } from './worker-pool.ts';
import type { Reader, WorkerEvents, WorkerThread } from './worker-runner.ts';

/**
 * JavaScript's share only: buffers and zstd's memory do not count. A worker needs about 6 MiB of it; V8 looks for
 * garbage when half of it is taken.
 */
const HEAP_MB = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4 };
/** A worker in the middle of a read(2) of a dead file server hears nothing. */
const CLOSE_MS = 2000;

export interface PoolOptions {
  /** Workers at most; with two or more the first is kept for files of one part. `auto`: see `Lanes`. */
  readonly count: number | 'auto';
  /** Several tasks may read. */
  readonly isShared?: boolean;
  /** How many cores have nothing to do now; asked when all workers are busy. The machine's, if it is left out. */
  readonly idleCores?: () => number;
  /** The bundled src/read/worker.ts. */
  readonly entry: URL | string;
  /** Where spools are made; undefined: nowhere. */
  readonly spoolDir?: string;
  /** Size of one spool at most. */
  readonly spoolLimitBytes: number;
}

export interface WorkersOptions extends PoolOptions {
  /** Stays the caller's. */
  readonly root: WorkDir;
  /** Files up to this size are read on the calling thread; 0: none. */
  readonly smallBytes: number;
}

/** What reads for one work directory, or for several. */
export interface Pool {
  /** Of the files beneath `root`, which stays the caller's; see {@link WorkersOptions}. */
  open(root: WorkDir, smallBytes: number): Workers;
  /** Ends the threads. */
  close(): Promise<void>;
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
  /**
   * Gives up all that is under way, which then throws; of a shared pool, resolves when nothing beneath the root is open
   * any more.
   */
  close(): Promise<void>;
}

/** Workers start on first use. From now on a lease that a writer meets does not end the process. */
export function openPool(options: PoolOptions): Pool {
  const { count, entry, spoolDir, spoolLimitBytes, isShared } = options;
  const lanes = new Lanes(count, options.idleCores ?? idleCores, isShared);
  ignoreLeaseBreaks();
  const spool = spoolDir === undefined ? undefined : { dir: spoolDir, limitBytes: spoolLimitBytes };
  const data: WorkerData = { spool };
  const pool = new WorkerPool(lanes, (events) => startThread(entry, data, events));
  const buffers = newSmallBuffers();
  return {
    open: (root, smallBytes) =>
      workersOf({ root, isClosed: false }, { pool, buffers, smallBytes, isShared: isShared === true }),
    close: () => pool.close(),
  };
}

interface Means {
  readonly pool: WorkerPool;
  readonly buffers: Buffers;
  readonly smallBytes: number;
  readonly isShared: boolean;
}

function workersOf(reader: Reader, { pool, buffers, smallBytes, isShared }: Means): Workers {
  const small = new SmallFiles(reader.root, smallBytes, buffers);
  pool.enter(reader);
  return {
    read: async (job, signal) => {
      if (smallBytes === 0)
        return pool.read(reader, job, job.held?.facts.size ?? job.expected?.size ?? 0, signal);
      const reading = await small.read(job, signal);
      return reading.kind === 'elsewhere' ? pool.read(reader, job, reading.sizeBytes, signal) : reading;
    },
    range: (job, signal) => pool.range(reader, job, signal),
    md5: (path, signal) => pool.md5(reader, path, signal),
    compressor: async () => (await compressorOfThread())?.name ?? 'none',
    close: async () => {
      small.close();
      // Else the pool ends with it.
      if (isShared) await pool.leave(reader);
    },
  };
}

/** A pool for one work directory alone, which ends with it. */
export function openWorkers({ root, smallBytes, ...options }: WorkersOptions): Workers {
  const pool = openPool(options);
  const workers = pool.open(root, smallBytes);
  return {
    ...workers,
    close: async () => {
      await workers.close();
      await pool.close();
    },
  };
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
