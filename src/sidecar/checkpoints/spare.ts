// Which generations are proven, and when the next one will be. Until one is, more are kept than `--generations` says:
// a death can come to light seconds after the commit of the set that it left half-written. Never drops or marks
// anything itself.
import { keptGenerations } from '../../model/checkpoint/retention.ts';
import { provenFromMs } from '../../model/file/suspect.ts';
import type { StoredFile } from '../../model/format/records.ts';
import { type LongTimer, startTimer } from '../../native/clock.ts';
import type { CutParts } from './pending-cut.ts';

interface Members {
  readonly members: readonly StoredFile[];
}

export class Spare {
  readonly #parts: Pick<CutParts, 'context' | 'files' | 'checkpoints'>;
  readonly #onProven: () => void;
  #signalledAtMs: number | undefined;
  #clean = false;
  #timer: LongTimer | undefined;

  /** Calls `onProven` when a generation is proven, if that lets another one go or takes a mark away. */
  constructor(parts: Pick<CutParts, 'context' | 'files' | 'checkpoints'>, onProven: () => void) {
    this.#parts = parts;
    this.#onProven = onProven;
  }

  readonly isProven = (generation: Members): boolean =>
    this.#clean || this.#provenFromMs(generation) <= this.#parts.context.now();

  /** True while a death may have made the close of one of these files. */
  isDoubtful({ members }: Members): boolean {
    const { files } = this.#parts;
    const doubtful = members.filter(
      ({ path }) => files.get(path, 'checkpoint')?.lastClose?.evidence === 'doubtful',
    );
    return !this.isProven({ members: doubtful });
  }

  /** A generation was committed. Asks to be called when the next one is proven, if that changes anything. */
  committed(): void {
    this.#timer?.cancel();
    const { ledger, settings, now } = this.#parts.context;
    const { generations } = ledger;
    const isSpare =
      keptGenerations(generations, settings.generations, () => true).length < generations.length;
    if (!isSpare && !generations.some(({ unproven }) => unproven)) return;
    const nowMs = now();
    const times = generations.map((one) => this.#provenFromMs(one)).filter((atMs) => atMs > nowMs);
    const nextMs = Math.min(...times);
    if (nextMs < Infinity) this.#timer = startTimer(nextMs - nowMs, this.#onProven);
  }

  /** The task was asked to end: from now on only its end proves what it closes. */
  signalled(atMs: number): void {
    this.#signalledAtMs ??= atMs;
  }

  /** The task ended well, and none of its writers died: all is proven. */
  endedWell(): void {
    this.#clean = true;
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** When it is proven, ms since the epoch: 0 for at once, Infinity for not before the end. */
  #provenFromMs({ members }: Members): number {
    const { files, checkpoints } = this.#parts;
    const from = members.map(({ path, key }) => {
      const newest = checkpoints.newestOf(path);
      // The task has closed the file again since, so no death made the close of this object.
      if (newest !== undefined && newest.key !== key) return 0;
      return provenFromMs(files.get(path, 'checkpoint')?.lastClose, this.#signalledAtMs);
    });
    return Math.max(0, ...from);
  }
}
