// How many workers may be at work at once. `auto`: two, one of them for files of one part; others only while cores are
// idle. A core that nothing else uses costs the task nothing, and one that the task uses belongs to it. Tasks that share
// their workers have some more, and far fewer than each would have alone.
import { clockMs } from '../native/clock.ts';

const ALWAYS = 2;
/** Each holds some 50 MiB while it sends a large file. */
const MOST = 4;
/** Of tasks that share them: each beyond the first adds one to those of always, up to so many. */
const ALWAYS_SHARED = 4;
const MOST_SHARED = 8;
/** A large file is hashed on one core and compressed on another. */
const CORES_EACH = 2;
/** So long after it has started, a worker is among those that the kernel counts. */
const SEEN_AFTER_MS = 1000;

export class Lanes {
  /** Of workers that there may be at all. */
  readonly most: number;
  /** How many tasks share them. */
  tasks = 1;
  readonly #isAuto: boolean;
  readonly #idleCores: () => number;
  /** When those that may not be seen yet have started, oldest first. */
  #startedMs: readonly number[] = [];

  /** `idleCores` is asked only when a worker beyond those of always is wanted. `isShared`: several tasks may have them. */
  constructor(count: number | 'auto', idleCores: () => number, isShared = false) {
    this.#isAuto = count === 'auto';
    this.most = count === 'auto' ? (isShared ? MOST_SHARED : MOST) : Math.max(1, count);
    this.#idleCores = idleCores;
  }

  /** May worker `n`, from 0 on, begin with a file now? If so, it is taken to do so. */
  take(n: number): boolean {
    const nowMs = clockMs();
    this.#startedMs = this.#startedMs.filter((startedMs) => nowMs - startedMs < SEEN_AFTER_MS);
    if (this.#isAuto && this.tasks === 1 && n >= MOST) return false;
    if (n >= this.#always && this.#idleCores() < CORES_EACH * (1 + this.#startedMs.length)) return false;
    this.#startedMs = [...this.#startedMs, nowMs];
    return true;
  }

  get #always(): number {
    return this.#isAuto ? Math.min(ALWAYS_SHARED, ALWAYS + this.tasks - 1) : this.most;
  }
}
