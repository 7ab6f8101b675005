// Asks the sidecar again and again whether it is there. One that is stopped or hangs would hold up the end of its task
// for ever: it is killed, and another one takes over. The runner asks a shared sidecar itself.
import type { ChildProcess } from 'node:child_process';
import type { Ask } from '../model/format/messages.ts';
import { clockMs } from '../native/clock.ts';

/** It hangs if it has left this many questions unanswered when the next one is due. */
const MOST_UNANSWERED = 2;

export interface Pace {
  readonly everyMs: number;
  /** After the time at which everything should have ended. */
  readonly lateMs: number;
}

const PACE: Pace = { everyMs: 30_000, lateMs: 5000 };
const ASK: Ask = { kind: 'ask' };

export class Heartbeat {
  readonly #child: ChildProcess;
  readonly #pace: Pace;
  #unanswered = 0;
  #deadlineMs = Infinity;
  #timer: NodeJS.Timeout | undefined;
  #isRunning = false;
  #hasKilled = false;

  /** Asks nothing before the first {@link heard}: a program on a slow file system may load for minutes. */
  constructor(child: ChildProcess, pace = PACE) {
    this.#child = child;
    this.#pace = pace;
  }

  /** True if it killed the sidecar. */
  get hasKilled(): boolean {
    return this.#hasKilled;
  }

  /** The sidecar said something. */
  heard(): void {
    this.#unanswered = 0;
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#arm();
  }

  /** When everything should have ended, ms since the epoch. */
  endsAt(deadlineMs: number | undefined): void {
    this.#deadlineMs = deadlineMs ?? Infinity;
    if (this.#isRunning) this.#arm();
  }

  close(): void {
    this.#isRunning = false;
    clearTimeout(this.#timer);
  }

  #arm(): void {
    clearTimeout(this.#timer);
    const { everyMs, lateMs } = this.#pace;
    const leftMs = this.#deadlineMs - clockMs();
    this.#timer = setTimeout(() => this.#beat(), leftMs <= 0 ? lateMs : Math.min(everyMs, leftMs)).unref();
  }

  #beat(): void {
    if (this.#unanswered >= MOST_UNANSWERED) {
      this.#hasKilled = true;
      this.#child.kill('SIGKILL');
      return;
    }
    this.#unanswered += 1;
    if (this.#child.connected) this.#child.send(ASK, () => undefined);
    this.#arm();
  }
}
