// How many workers may run at once. `auto`: two, one of them for files of one part, and others only while cores are
// idle. An idle core costs the task nothing; a core that the task uses belongs to it. Tasks that share their workers
// have some more, but far fewer than each would have alone.
import { clockMs } from '../native/clock.ts';

const ALWAYS_ALLOWED = 2;
/** Each takes about 50 MiB while it sends a large file. */
const MOST_WORKERS = 4;
/** With shared workers, each task beyond the first adds one to ALWAYS_ALLOWED, up to this many. */
const ALWAYS_SHARED = 4;
const MOST_SHARED = 8;
/** A large file is hashed on one core and compressed on another. */
const CORES_EACH = 2;
/** This long after its start, the kernel's idle figures include a worker. */
const COUNTED_AFTER_MS = 1000;

export class WorkerLimit {
  /** The most workers that may ever run. */
  readonly most: number;
  /** How many tasks share the workers. */
  tasks = 1;
  readonly #isAuto: boolean;
  readonly #idleCores: () => number;
  /** Start times of the workers that the idle figures may not include yet, oldest first. */
  #startedMs: readonly number[] = [];

  /**
   * `idleCores` is called only to decide on a worker beyond ALWAYS_ALLOWED. `isShared`: several tasks may use the
   * workers.
   */
  constructor(count: number | 'auto', idleCores: () => number, isShared = false) {
    this.#isAuto = count === 'auto';
    this.most = count === 'auto' ? (isShared ? MOST_SHARED : MOST_WORKERS) : Math.max(1, count);
    this.#idleCores = idleCores;
  }

  /** May worker `n`, counted from 0, begin a file now? */
  allows(n: number): boolean {
    if (n < this.#always) return true;
    if (this.#isAuto && this.tasks === 1 && n >= MOST_WORKERS) return false;
    const nowMs = clockMs();
    this.#startedMs = this.#startedMs.filter((startedMs) => nowMs - startedMs < COUNTED_AFTER_MS);
    return this.#idleCores() >= CORES_EACH * (1 + this.#startedMs.length);
  }

  /** A worker has begun a file. */
  started(): void {
    this.#startedMs = [...this.#startedMs, clockMs()];
  }

  get #always(): number {
    return this.#isAuto ? Math.min(ALWAYS_SHARED, ALWAYS_ALLOWED + this.tasks - 1) : this.most;
  }
}
