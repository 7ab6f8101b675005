// The main thread's end of one worker: starts the thread, and tells when it died. Knows nothing of jobs.
import fs from 'node:fs';
import { Worker } from 'node:worker_threads';
import type { FromWorker, ToWorker, WorkerData } from './reading.ts';

/** JavaScript's share only: buffers and zstd's memory do not count. A worker needs about 6 MiB of it. */
const HEAP_MB = { maxOldGenerationSizeMb: 48, maxYoungGenerationSizeMb: 4 };
/** A worker in the middle of a read(2) of a dead file server hears nothing. */
const CLOSE_MS = 2000;

export interface WorkerThread {
  post(message: ToWorker): void;
  /** Ends the job under way and then the thread. Never rejects. */
  close(): Promise<void>;
}

export interface WorkerEvents {
  readonly message: (message: FromWorker) => void;
  /** The thread is gone without having been asked to. */
  readonly death: (error: Error) => void;
}

/** Where the task has removed the directory that we stand in, no thread can start: getcwd(3) is ENOENT there. */
function leaveLostDirectory(): void {
  try {
    fs.realpathSync.native('.');
  } catch {
    process.chdir('/');
  }
}

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
    post: (message) =>
      worker.postMessage(message, message.kind === 'give-back' ? [message.bytes.buffer] : []),
    close: async () => {
      isClosing = true;
      worker.postMessage({ kind: 'close' } satisfies ToWorker);
      const timer = setTimeout(() => void worker.terminate(), CLOSE_MS);
      await gone;
      clearTimeout(timer);
    },
  };
}
