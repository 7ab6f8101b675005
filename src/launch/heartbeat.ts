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
  /** Instead of `everyMs` before it says anything: a program on a slow file system may load for minutes. */
  readonly startingMs: number;
  /** A start that takes longer is reported. */
  readonly slowStartMs: number;
}

const PACE: Pace = { everyMs: 30_000, lateMs: 5000, startingMs: 100_000, slowStartMs: 10_000 };
/** A sidecar that says nothing is killed this long after its start, earlier if everything should have ended. */
export const STARTS_WITHIN_MS = PACE.startingMs * (MOST_UNANSWERED + 1);
const ASK: Ask = { kind: 'ask' };

export class Heartbeat {
  readonly #child: ChildProcess;
  readonly #pace: Pace;
  readonly #slowStart: NodeJS.Timeout;
  #unanswered = 0;
  #deadlineMs = Infinity;
  #timer: NodeJS.Timeout | undefined;
  #isStarting = true;
  #isOver = false;
  #hasKilled = false;

  /** `slow` is called once if it says nothing for a while after its start. The caller closes. */
  constructor(child: ChildProcess, slow: () => void, pace = PACE) {
    this.#child = child;
    this.#pace = pace;
    this.#slowStart = setTimeout(slow, pace.slowStartMs).unref();
    this.#arm();
  }

  /** True if it killed the sidecar. */
  get hasKilled(): boolean {
    return this.#hasKilled;
  }

  /** The sidecar said something. */
  heard(): void {
    this.#unanswered = 0;
    if (!this.#isStarting) return;
    this.#isStarting = false;
    clearTimeout(this.#slowStart);
    this.#arm();
  }

  /** When everything should have ended, ms since the epoch. */
  endsAt(deadlineMs: number | undefined): void {
    this.#deadlineMs = deadlineMs ?? Infinity;
    this.#arm();
  }

  close(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#slowStart);
  }

  #arm(): void {
    clearTimeout(this.#timer);
    if (this.#isOver) return;
    const { lateMs } = this.#pace;
    const everyMs = this.#isStarting ? this.#pace.startingMs : this.#pace.everyMs;
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
