// Read this first. The interface that the upload calls. A small file is read at once, on the calling thread. All
// others go to the workers (worker-pool.ts), which never block that thread. Tasks that share a sidecar share its
// workers.
import fs from 'node:fs';
import { Worker } from 'node:worker_threads';
import type { RelPath } from '../model/path.ts';
import type { WorkDir } from '../native/beneath.ts';
import { ignoreLeaseBreaks } from '../native/files.ts';
import { idleCores } from '../native/idle-cores.ts';
import type { Buffers } from './buffers.ts';
import { compressorOfThread } from './encode.ts';
import { WorkerLimit } from './worker-limit.ts';
import type { CompressorName, Digest, RangeJob, Reading, ReadJob, ToWorker, WorkerData } from './reading.ts';
import { newSmallBuffers, SmallFiles } from './small-file.ts';
import { WorkerPool } from './worker-pool.ts';
import type { PoolClient, WorkerEvents, WorkerThread } from './worker-runner.ts';

/**
 * JavaScript's share only: buffers and zstd's memory do not count. A worker needs about 6 MiB of it; V8 collects
 * garbage when half of it is used.
 */
const HEAP_MB = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4 };
/** A worker inside a read(2) of a dead file server gets no messages. */
const CLOSE_MS = 2000;

export interface PoolOptions {
  /** Most workers; with two or more, the first is reserved for files of one part. `auto`: see `WorkerLimit`. */
  readonly count: number | 'auto';
  /** Several tasks may read. */
  readonly isShared?: boolean;
  /** How many cores are idle now; called when all workers are busy. Default: the machine's. */
  readonly idleCores?: () => number;
  /** The bundled src/read/worker.ts. */
  readonly entry: URL | string;
  /** The directory for spools; undefined: no spool. */
  readonly spoolDir?: string;
  /** Largest size of one spool. */
  readonly spoolLimitBytes: number;
}

export interface WorkersOptions extends PoolOptions {
  /** The caller keeps and closes it. */
  readonly root: WorkDir;
  /** Files up to this size are read on the calling thread; 0: none. */
  readonly smallBytes: number;
}

/** The readers of one work directory, or of several. */
export interface Pool {
  /** For the files beneath `root`, which the caller closes; see {@link WorkersOptions}. */
  open(root: WorkDir, smallBytes: number): Workers;
  /** Ends the threads. */
  close(): Promise<void>;
}

export interface Workers {
  /**
   * One consistent reading of a file beneath the root. Every state of the file is an answer; throws if it cannot be
   * read (EIO) or its worker died. `signal` also covers the body: its abort ends the parts.
   */
  read(job: ReadJob, signal?: AbortSignal): Promise<Reading>;
  /**
   * The end of a file that is being appended to, whoever has it open. `moved` if the file is shorter than the range's
   * end, or if another file is at its path.
   */
  range(job: RangeJob, signal?: AbortSignal): Promise<Reading>;
  /** The md5 of one consistent reading, without a body. */
  md5(path: RelPath, signal?: AbortSignal): Promise<Digest>;
  /** The compressor on this machine; `none` deserves a warning. */
  compressor(): Promise<CompressorName>;
  /**
   * Gives up all current readings, which then throw. For a shared pool, resolves when no file beneath the root is open
   * any more.
   */
  close(): Promise<void>;
}

/** Workers start on first use. From now on SIGIO, sent when a writer breaks a lease, does not end the process. */
export function openPool(options: PoolOptions): Pool {
  const { count, entry, spoolDir, spoolLimitBytes, isShared } = options;
  const lanes = new WorkerLimit(count, options.idleCores ?? idleCores, isShared);
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

interface WorkersContext {
  readonly pool: WorkerPool;
  readonly buffers: Buffers;
  readonly smallBytes: number;
  readonly isShared: boolean;
}

function workersOf(reader: PoolClient, { pool, buffers, smallBytes, isShared }: WorkersContext): Workers {
  const small = new SmallFiles(reader.root, smallBytes, buffers);
  pool.join(reader);
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
      // Otherwise the pool ends with it.
      if (isShared) await pool.leave(reader);
    },
  };
}

/** A pool for a single work directory, which ends with it. */
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

/** The thread of one worker. It knows nothing of jobs. */
export function startThread(entry: URL | string, data: WorkerData, events: WorkerEvents): WorkerThread {
  leaveLostDirectory();
  const worker = new Worker(entry, {
    workerData: data,
    // Without these two options Node opens process.stdout and process.stderr, which belong to the task.
    stdout: true,
    stderr: true,
    // Files are opened by openat2(2), which Node does not know of: it would warn at each close, and keep every
    // warning.
    trackUnmanagedFds: false,
    execArgv: [],
    resourceLimits: HEAP_MB,
  });
  // Unread output would stay in memory: 2 KiB once for each file.
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

/** If the task has removed the current directory, no thread can start: getcwd(3) fails with ENOENT there. */
function leaveLostDirectory(): void {
  try {
    fs.realpathSync.native('.');
  } catch {
    process.chdir('/');
  }
}
