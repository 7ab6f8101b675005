// Writes text to a file descriptor that we share with the task, without a stream: libuv would make a shared
// pipe non-blocking, and the task would read EAGAIN. Must never block for long, nor fail the run.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';

/** A reader that takes nothing for so long loses the message: capturing goes on. */
const PATIENCE_MS = 500;
const PAUSE_MS = 5;

const pause = new Int32Array(new SharedArrayBuffer(4));

/**
 * Writes all of it, synchronously. Text is lost, and nothing else happens, when nobody reads any more (EPIPE,
 * a closed descriptor, a terminal that hung up), or nobody for half a second.
 */
export function writeText(fd: number, text: string): void {
  const bytes = Buffer.from(text, 'utf8');
  let at = 0;
  let pausedMs = 0;
  while (at < bytes.length) {
    try {
      at += fs.writeSync(fd, bytes, at);
    } catch (error) {
      // Somebody else made the pipe non-blocking, and it is full.
      if (errnoOf(error) !== 'EAGAIN' || pausedMs >= PATIENCE_MS) return;
      Atomics.wait(pause, 0, 0, PAUSE_MS);
      pausedMs += PAUSE_MS;
    }
  }
}
