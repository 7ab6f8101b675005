// Keeps more generations than `--generations` says for as long as none of them is proven: a death can come to
// light seconds after the set that it left half-written was committed. It never drops anything itself.
import type { Generation } from '../../core/records.ts';
import { keptGenerations } from '../../core/retention.ts';
import { provenFromMs } from '../../core/suspect.ts';
import type { CutParts } from './pending-cut.ts';

export class Spare {
  readonly #parts: Pick<CutParts, 'context' | 'files' | 'checkpoints'>;
  readonly #drop: () => void;
  #signalledAtMs: number | undefined;
  #clean = false;
  #timer: NodeJS.Timeout | undefined;

  /** `drop` is called when what was kept for this reason may go. */
  constructor(parts: Pick<CutParts, 'context' | 'files' | 'checkpoints'>, drop: () => void) {
    this.#parts = parts;
    this.#drop = drop;
  }

  readonly isProven = (generation: Generation): boolean =>
    this.#clean || this.#provenFromMs(generation) <= this.#parts.context.now();

  /** A generation was committed: asks for a look when the next one is proven, if that lets another one go. */
  committed(): void {
    clearTimeout(this.#timer);
    const { ledger, settings, now } = this.#parts.context;
    const { generations } = ledger;
    if (keptGenerations(generations, settings.generations, () => true).length === generations.length) return;
    const nowMs = now();
    const times = generations.map((one) => this.#provenFromMs(one)).filter((atMs) => atMs > nowMs);
    const nextMs = Math.min(...times);
    if (nextMs < Infinity) this.#timer = setTimeout(this.#drop, nextMs - nowMs).unref();
  }

  /** The task was asked to end: what it closes from now on is proven by its end only. */
  signalled(atMs: number): void {
    this.#signalledAtMs ??= atMs;
  }

  /** The task ended well, and none of its writers died: all is proven. */
  endedWell(): void {
    this.#clean = true;
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  /** 0 for at once, Infinity for not before the end; ms since the epoch. */
  #provenFromMs({ members }: Generation): number {
    const { files, checkpoints } = this.#parts;
    const from = members.map(({ path, key }) => {
      const newest = checkpoints.newestOf(path);
      // The task has closed the file anew since: the close that made this object was no death.
      if (newest !== undefined && newest.key !== key) return 0;
      return provenFromMs(files.get(path, 'checkpoint')?.lastClose, this.#signalledAtMs);
    });
    return Math.max(0, ...from);
  }
}
