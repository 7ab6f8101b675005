// A worker: the thread that reads, hashes and compresses one file at a time. The entry point of its own bundle. It
// never touches the store, and writes only to the spool.
import { parentPort, workerData } from 'node:worker_threads';
import { errnoOf, reasonOf } from '../model/errors.ts';
import { prepareMd5 } from '../model/md5.ts';
import { Buffers } from './buffers.ts';
import { MIN_PART_BYTES } from '../model/file/part-size.ts';
import { loadCompressor } from './encode.ts';
import { readFile, type Outlet, type Resources } from './read-file.ts';
import { readRange } from './read-range.ts';
import type { FromWorker, ToWorker, WorkerAnswer, WorkerData, WorkerRequest } from './reading.ts';

const READ_BYTES = 2 ** 20;
/** One part that is ready, two that are being sent, and one more that is being filled. */
const SPARE_PARTS = 3;

/** The current job. */
interface Current {
  readonly giveUp: AbortController;
  /** Parts that may be sent before the reader asks for more. */
  credits: number;
  wake: (() => void) | undefined;
}

if (parentPort === null) throw new Error('worker is the entry of a worker thread');
const port = parentPort;

const buffers = new Buffers(MIN_PART_BYTES, SPARE_PARTS);
const resources = openResources();
let current: Current | undefined;
let isClosing = false;

port.on('message', (message: ToWorker) => {
  switch (message.kind) {
    case 'job':
      current = { giveUp: new AbortController(), credits: 1, wake: undefined };
      void work(message.request, current);
      return;
    case 'credit':
      if (current !== undefined) current.credits += 1;
      current?.wake?.();
      return;
    case 'give-back':
      return buffers.giveBack(message.bytes);
    case 'cancel':
      current?.giveUp.abort();
      current?.wake?.();
      return;
    case 'close':
      isClosing = true;
      current?.giveUp.abort();
      current?.wake?.();
      if (current === undefined) close();
  }
});

/** Everything except the root, which comes with each job. */
async function openResources(): Promise<Omit<Resources, 'root'>> {
  const [compressor] = await Promise.all([loadCompressor(), prepareMd5()]);
  return { ...(workerData as WorkerData), compressor, buffers, buffer: new Uint8Array(READ_BYTES) };
}

async function work(request: WorkerRequest, job: Current): Promise<void> {
  const { signal } = job.giveUp;
  let last: FromWorker;
  try {
    last = { kind: 'answer', answer: await answerTo(request, outletOf(job), signal) };
  } catch (error) {
    last = signal.aborted
      ? { kind: 'cancelled' }
      : { kind: 'failed', message: reasonOf(error), code: errnoOf(error) };
  }
  current = undefined;
  send(last);
  // Only now, when the files of the job are closed.
  if (isClosing) close();
}

function close(): void {
  buffers.empty();
  port.close();
}

async function answerTo(request: WorkerRequest, outlet: Outlet, signal: AbortSignal): Promise<WorkerAnswer> {
  const { root, work, smallOnly, seen } = request;
  const opened = { ...(await resources), root };
  if (work.kind === 'range') return readRange(opened, { job: work.job, smallOnly }, outlet, signal);
  return readFile(opened, { work, smallOnly, seen }, outlet, signal);
}

function outletOf(job: Current): Outlet {
  const ready = async (): Promise<void> => {
    while (job.credits === 0 && !job.giveUp.signal.aborted) {
      await new Promise<void>((resolve) => {
        job.wake = resolve;
      });
    }
    job.giveUp.signal.throwIfAborted();
  };
  const drop = (bytes: Uint8Array): void => buffers.giveBack(bytes);
  return {
    ready,
    drop,
    begin: (head) => send({ kind: 'begin', head }),
    part: async (bytes) => {
      await ready().catch((error: unknown) => {
        drop(bytes);
        throw error;
      });
      job.credits -= 1;
      send({ kind: 'part', bytes });
    },
  };
}

function send(message: FromWorker): void {
  port.postMessage(message);
}
