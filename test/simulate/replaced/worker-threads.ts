// node:worker_threads: a worker runs on the only thread there is. Its program is src/read/worker.ts, whose body becomes
// a function in the bundle (bundle.mjs), so that there can be several.
import { EventEmitter } from 'node:events';
import * as workerProgram from '../../../src/read/worker.ts';
import { theWorld } from '../machine/world.ts';

interface Port extends EventEmitter {
  postMessage(message: unknown): void;
  close(): void;
}

const { runWorker } = workerProgram as unknown as { runWorker: (port: Port, workerData: unknown) => void };

/** The time from one thread to the other. */
const POST_MS = 0.05;

export class Worker extends EventEmitter {
  readonly stdout = { resume: (): void => undefined };
  readonly stderr = this.stdout;
  readonly #port: Port;
  #isEnded = false;

  constructor(_entry: unknown, { workerData }: { readonly workerData: unknown }) {
    super();
    theWorld().count('a worker is started');
    this.#port = Object.assign(new EventEmitter(), {
      postMessage: (message: unknown) => theWorld().after(POST_MS, () => this.emit('message', message)),
      close: () => this.#end(),
    });
    runWorker(this.#port, workerData);
  }

  postMessage(message: unknown): void {
    theWorld().after(POST_MS, () => this.#port.emit('message', message));
  }

  async terminate(): Promise<number> {
    this.#end();
    return 1;
  }

  #end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    theWorld().after(POST_MS, () => this.emit('exit', 0));
  }
}

export const parentPort = null;
export const workerData = undefined;
export const isMainThread = true;
