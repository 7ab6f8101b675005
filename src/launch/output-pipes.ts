// With --log-output: the pipes that the task's stdout and stderr go to. The task gets pipes of ours in their place. We
// pass each byte on to the reader, and copy it to an unnamed file, which the sidecar reads. Never touches a file, a
// terminal or a socket, and never waits for the sidecar or the store.
import fs from 'node:fs';
import os from 'node:os';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { reasonOf } from '../model/errors.ts';
import type { OutputFrom, OutputsFrom } from '../model/format/messages.ts';
import type { Settings } from '../model/format/settings.ts';
import { clockMs } from '../native/clock.ts';
import { createUnnamed } from '../native/files.ts';
import { nextByteOf } from '../native/open-files.ts';
import { newPipe, passOn, type Pipe } from '../native/pipe.ts';
import { POLLIN, pollAny } from '../native/poll.ts';
import { PassedPipe } from './passed-pipe.ts';

/** At the end, a reader whose pipe cannot be enlarged for the rest gets this long. */
const READER_MS = 2000;

export interface OutputPipesOptions {
  readonly settings: Pick<Settings, 'outputLimitBytes' | 'spoolDir'>;
  readonly warn: (line: string, hint?: string) => void;
}

export interface OutputPipes {
  /** Where the sidecar reads both streams. */
  readonly from: OutputsFrom;
  /** What the task gets as its stdout and stderr. */
  readonly taskFds: readonly [stdout: number, stderr: number];
  /** The task has its descriptors: passes on what it writes from now on. */
  begin(): void;
  /**
   * No process of the task is left: resolves when all that they wrote is copied, and in the pipe of its reader. Takes up
   * to 2 s if nobody reads, and that pipe cannot hold the rest.
   */
  drain(): Promise<void>;
  /** The sidecar has ended: it needs the copies no more. */
  close(): Promise<void>;
}

/** A pipe that is passed on, and what leads to it. */
interface Opened {
  /** Device and inode of the reader's pipe. */
  readonly id: string;
  readonly pipe: Pipe;
  readonly copyFd: number;
  readonly passed: PassedPipe;
}

/** Looks at our stdout and stderr. A pipe that cannot be passed on stays the task's own, and `from` says why. */
export function openOutputPipes(options: OutputPipesOptions): OutputPipes {
  const opened: Opened[] = [];
  const streamOf = (fd: 1 | 2): { readonly from: OutputFrom; readonly taskFd: number } => {
    const { outputLimitBytes = 0 } = options.settings;
    const id = outputLimitBytes === 0 ? undefined : pipeOf(fd);
    if (id === undefined) return { from: { fd, firstByte: nextByteOf(process.pid, fd) }, taskFd: fd };
    try {
      const same = opened.find((one) => one.id === id);
      const one = same ?? open(fd, id, options);
      if (same === undefined) opened.push(one);
      return { from: { fd: one.copyFd, firstByte: 0 }, taskFd: one.pipe.writeFd };
    } catch (error) {
      return { from: { fd, firstByte: 0, notCopied: reasonOf(error) }, taskFd: fd };
    }
  };
  const out = streamOf(1);
  const err = streamOf(2);
  const passing = opened.length === 0 ? undefined : new Passing(opened, newPipe());
  return {
    from: [out.from, err.from],
    taskFds: [out.taskFd, err.taskFd],
    begin: () => passing?.begin(),
    drain: async () => passing?.drain(),
    close: async () => passing?.close(),
  };
}

/** Device and inode of the pipe that the descriptor leads to; undefined if it leads to none. */
function pipeOf(fd: number): string | undefined {
  try {
    const stat = fs.fstatSync(fd, { bigint: true });
    return stat.isFIFO() ? `${stat.dev}:${stat.ino}` : undefined;
  } catch {
    return undefined; // closed
  }
}

/** Throws if the copy cannot be made, or if the kernel does not pass on what is in a pipe. */
function open(fd: 1 | 2, id: string, { settings, warn }: OutputPipesOptions): Opened {
  const copyFd = createUnnamed(settings.spoolDir ?? os.tmpdir());
  let pipe: Pipe | undefined;
  try {
    pipe = newPipe();
    passOn(pipe.readFd, fd, 1);
  } catch (error) {
    for (const made of [copyFd, pipe?.readFd, pipe?.writeFd]) if (made !== undefined) fs.closeSync(made);
    throw error;
  }
  const name = fd === 1 ? 'stdout' : 'stderr';
  const { outputLimitBytes: limitBytes = 0 } = settings;
  return { id, pipe, copyFd, passed: new PassedPipe({ pipe, toFd: fd, copyFd, limitBytes, name, warn }) };
}

/** Passes on all pipes of a task in one loop: with UV_THREADPOOL_SIZE=1 a second wait would never begin. */
class Passing {
  readonly #opened: readonly Opened[];
  /** Its hang-up ends a wait. */
  readonly #wake: Pipe;
  #running: Promise<void> | undefined;
  #isEnding = false;

  constructor(opened: readonly Opened[], wake: Pipe) {
    this.#opened = opened;
    this.#wake = wake;
  }

  begin(): void {
    this.#closeTaskEnds();
    process.once('exit', this.#end);
    this.#running = this.#run();
  }

  async drain(): Promise<void> {
    this.#end();
    await this.#running;
    const untilMs = clockMs() + READER_MS;
    // oxlint-disable-next-line no-await-in-loop -- piece after piece, as before
    for (const { passed } of this.#opened) await passed.finish(untilMs);
  }

  async close(): Promise<void> {
    if (this.#running === undefined) this.#closeTaskEnds();
    process.off('exit', this.#end);
    this.#end();
    await this.#running;
    fs.closeSync(this.#wake.readFd);
    for (const { passed, copyFd } of this.#opened) {
      passed.close();
      fs.closeSync(copyFd);
    }
  }

  /** While we had them, the end of the task's output could not be seen. */
  #closeTaskEnds(): void {
    for (const { pipe } of this.#opened) fs.closeSync(pipe.writeFd);
  }

  readonly #end = (): void => {
    if (!this.#isEnding) fs.closeSync(this.#wake.writeFd);
    this.#isEnding = true;
  };

  async #run(): Promise<void> {
    while (!this.#isEnding) {
      let hasMoved = false;
      for (const { passed } of this.#opened) {
        // oxlint-disable-next-line no-await-in-loop -- piece after piece
        hasMoved = (await passed.pass()) || hasMoved;
      }
      const waitsFor = this.#opened.flatMap(({ passed }) => passed.waitsFor);
      if (waitsFor.length === 0) return;
      // Signals have their turn even if the output never pauses.
      // oxlint-disable-next-line no-await-in-loop -- wait after wait
      await (hasMoved ? nextTurn() : pollAny([...waitsFor, [this.#wake.readFd, POLLIN]]));
    }
  }
}
