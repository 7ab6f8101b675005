// One pipe that the task writes to in place of its reader's. What is in it is passed on with tee(2), and then taken out
// of it into a copy. So only the kernel holds bytes that are under way, and the task waits for a slow reader. Never
// waits for a reader or a disk in a way that holds up this thread.
import fs from 'node:fs';
import { reasonOf } from '../model/errors.ts';
import { emptyUpTo, FIRST_BYTES } from '../model/output-copy.ts';
import { formatBytes } from '../model/units.ts';
import { clockMs } from '../native/clock.ts';
import { punchHole } from '../native/files.ts';
import { enlargePipe, passOn, type Pipe, pipeCapacity } from '../native/pipe.ts';
import { POLLERR, POLLHUP, POLLIN, pollAny, pollNow, POLLOUT, type Wanted } from '../native/poll.ts';

/** Passed on at once, at most: more than a pipe holds, unless somebody has enlarged it. */
const AT_ONCE_BYTES = 256 * 2 ** 10;
/** The copy is emptied in pieces of at least this size. */
const EMPTIED_BYTES = 2 ** 20;

export interface PassedPipeOptions {
  /** The task's pipe. */
  readonly pipe: Pipe;
  /** Our descriptor of the reader's pipe. */
  readonly toFd: number;
  /** The copy: an unnamed file. */
  readonly copyFd: number;
  /** So many of the newest bytes stay in the copy. */
  readonly limitBytes: number;
  /** `stdout` or `stderr`, for messages. */
  readonly name: string;
  readonly warn: (line: string, hint?: string) => void;
}

export class PassedPipe {
  readonly #options: PassedPipeOptions;
  readonly #buffer = Buffer.allocUnsafeSlow(AT_ONCE_BYTES);
  /** False once no process has the task's end any more, or nobody reads what is passed on. */
  #isOpen = true;
  #isReaderFull = false;
  #sizeBytes = 0;
  #emptyUpTo = FIRST_BYTES;
  #copies: 'all' | 'not all' | 'no more' = 'all';

  constructor(options: PassedPipeOptions) {
    this.#options = options;
  }

  /** What must happen before anything can be passed on; nothing once it is closed. */
  get waitsFor(): readonly Wanted[] {
    const { pipe, toFd } = this.#options;
    if (!this.#isOpen) return [];
    if (this.#isReaderFull) return [[toFd, POLLOUT]];
    // 0: a reader that goes away is reported in any case.
    return [
      [pipe.readFd, POLLIN],
      [toFd, 0],
    ];
  }

  /**
   * Passes on what is there now and has room; false if that was nothing. Closes the pipe if nobody writes to it any
   * more, or if the reader is gone: then the task's next write fails with EPIPE, as it would at the reader's pipe.
   */
  async pass(): Promise<boolean> {
    if (!this.#isOpen) return false;
    const moved = await this.#move();
    if (moved === undefined) this.close();
    return moved === true;
  }

  /**
   * No process of the task is left: passes on the rest. For what its reader has not read yet, it enlarges the reader's
   * pipe. If the kernel does not allow that, it waits for the reader until the given time, ms since the epoch; then it
   * only copies the rest, and warns.
   */
  async finish(untilMs: number): Promise<void> {
    if (!this.#isOpen) return;
    const { pipe, toFd, name, warn } = this.#options;
    enlargePipe(toFd, pipeCapacity(toFd) + pipeCapacity(pipe.readFd));
    let moved: boolean | undefined = true;
    let leftMs = 0;
    do {
      // oxlint-disable-next-line no-await-in-loop -- piece after piece
      moved = await this.#move();
      leftMs = untilMs - clockMs();
      // oxlint-disable-next-line no-await-in-loop -- wait after wait
      if (moved === false && this.#isReaderFull && leftMs > 0) await pollAny(this.waitsFor, leftMs);
    } while (leftMs > 0 && (moved === true || this.#isReaderFull));
    const restBytes = await this.#copyRest();
    if (moved === false && restBytes > 0)
      warn(`nobody has read the last ${formatBytes(restBytes)} of ${name}: they are only stored`);
    this.close();
  }

  close(): void {
    if (this.#isOpen) fs.closeSync(this.#options.pipe.readFd);
    this.#isOpen = false;
  }

  /** False if there was nothing, or no room; undefined if there will never be any. */
  async #move(): Promise<boolean | undefined> {
    const { pipe, toFd } = this.#options;
    const [input = 0, output = 0] = pollNow([
      [pipe.readFd, POLLIN],
      [toFd, POLLOUT],
    ]);
    const hasInput = (input & POLLIN) !== 0;
    this.#isReaderFull = false;
    if ((output & POLLERR) !== 0 || (!hasInput && (input & POLLHUP) !== 0)) return undefined;
    if (!hasInput) return false;
    const length = this.#passOn();
    if (length === undefined) return undefined;
    this.#isReaderFull = length === 0;
    if (length > 0) await this.#take(length);
    return length > 0;
  }

  /** Undefined if the reader is gone. */
  #passOn(): number | undefined {
    const { pipe, toFd } = this.#options;
    try {
      return passOn(pipe.readFd, toFd, this.#buffer.length);
    } catch {
      return undefined; // EPIPE: it has gone since
    }
  }

  /** Takes bytes out of the task's pipe into the copy; returns how many. */
  async #take(mostBytes: number): Promise<number> {
    const length = fs.readSync(this.#options.pipe.readFd, this.#buffer, 0, mostBytes, null);
    if (this.#copies === 'no more') return length;
    try {
      await this.#copy(length);
    } catch (error) {
      if (this.#copies === 'all') this.#warnOf(error);
      this.#copies = 'not all';
    }
    await this.#empty();
    return length;
  }

  async #copyRest(): Promise<number> {
    const { readFd } = this.#options.pipe;
    const mostBytes = pipeCapacity(readFd);
    let copiedBytes = 0;
    // Not more than there is: a process elsewhere may go on writing.
    while (copiedBytes < mostBytes && ((pollNow([[readFd, POLLIN]])[0] ?? 0) & POLLIN) !== 0) {
      // oxlint-disable-next-line no-await-in-loop -- piece after piece
      copiedBytes += await this.#take(this.#buffer.length);
    }
    return copiedBytes;
  }

  /** What has no room on the disk is left out, and what follows is copied behind it. */
  async #copy(length: number): Promise<void> {
    for (let done = 0; done < length;) {
      // oxlint-disable-next-line no-await-in-loop -- usually once
      const written = await write(this.#options.copyFd, this.#buffer.subarray(done, length), this.#sizeBytes);
      done += written;
      this.#sizeBytes += written;
    }
  }

  /** Frees what is not kept, so that the copy cannot fill the disk while nothing can be stored. */
  async #empty(): Promise<void> {
    const { copyFd, limitBytes } = this.#options;
    const toBytes = emptyUpTo(this.#sizeBytes, limitBytes);
    if (toBytes - this.#emptyUpTo < EMPTIED_BYTES) return;
    try {
      await punchHole(copyFd, this.#emptyUpTo, toBytes);
      this.#emptyUpTo = toBytes;
    } catch (error) {
      this.#copies = 'no more';
      this.#warnOf(error);
    }
  }

  #warnOf(error: unknown): void {
    const { name, warn } = this.#options;
    warn(`${name} of the task is not stored completely: ${reasonOf(error)}`, '--spool <dir> on another disk');
  }
}

/** Resolves to the bytes written. */
function write(fd: number, bytes: Buffer, at: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.write(fd, bytes, 0, bytes.length, at, (error, written) => {
      if (error === null) resolve(written);
      else reject(error);
    });
  });
}
