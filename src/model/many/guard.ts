// Memory runs short: who goes? Told the figures of each moment; names the youngest task, so that the least work waits,
// and never the last one that runs. Memory only; times are arguments.
import { type RunningTask, shortBytes } from './admission.ts';

export interface MemoryMoment {
  readonly nowMs: number;
  /** The least of MemAvailable and what the cgroup has left, its page cache not counted. */
  readonly availableBytes: number;
  /** The least of MemTotal and the cgroup's limit. */
  readonly limitBytes: number;
  /** PSI memory `full avg10`: how much of the time all stood still for memory; 0 where the kernel has none. */
  readonly psiFullPercent: number;
}

export type GuardVerdict<T> =
  | { readonly kind: 'calm' }
  /** Start none; those that run may go on. */
  | { readonly kind: 'hold' }
  /**
   * `give-back`: this one checkpoints, ends, and waits for its turn. `too-large`: it runs alone, and the machine has no room
   * for it: it fails, and says what it needed.
   */
  | { readonly kind: 'give-back' | 'too-large'; readonly one: T };

/** What the one before frees is seen only after some time. */
const PAUSE_MS = 5000;
/** Of ten seconds one was lost to reclaim (kernel, Documentation/accounting/psi.rst). */
const STALLED_PERCENT = 10;

export class MemoryGuard {
  #isPressed = false;
  #lastMs = -Infinity;

  /** Once a second or so. What it names is to be told to end, and is `isEnding` from then on. */
  look<T extends RunningTask>(moment: MemoryMoment, running: readonly T[]): GuardVerdict<T> {
    const { nowMs, availableBytes, limitBytes, psiFullPercent } = moment;
    const short = shortBytes(limitBytes);
    // Reading many files stalls, too: that counts only if there is little left.
    const isEased = availableBytes >= 2 * short;
    const isShort = availableBytes < short || (!isEased && psiFullPercent >= STALLED_PERCENT);
    if (isEased) this.#isPressed = false;
    if (isShort) this.#isPressed = true;
    if (!this.#isPressed) return { kind: 'calm' };
    if (!isShort || nowMs < this.#lastMs + PAUSE_MS) return { kind: 'hold' };
    const isCritical = availableBytes < short / 2;
    const verdict = choose(running, isCritical);
    if (verdict !== undefined) {
      this.#lastMs = nowMs;
      return verdict;
    }
    return isCritical ? (tooLarge(moment, running) ?? { kind: 'hold' }) : { kind: 'hold' };
  }
}

/** While one ends, its memory is awaited, as long as there is any. Of two that began at once the later in the list goes. */
function choose<T extends RunningTask>(
  running: readonly T[],
  isCritical: boolean,
): GuardVerdict<T> | undefined {
  const staying = running.filter(({ isEnding }) => !isEnding);
  if (staying.length < 2 || (staying.length < running.length && !isCritical)) return undefined;
  return { kind: 'give-back', one: staying.reduce((a, b) => (b.startedMs >= a.startedMs ? b : a)) };
}

/** It is not to blame for what other programs of this machine use. */
function tooLarge<T extends RunningTask>(
  { availableBytes, limitBytes }: MemoryMoment,
  running: readonly T[],
): GuardVerdict<T> | undefined {
  const [one] = running;
  if (one === undefined || running.length > 1 || one.isEnding) return undefined;
  return one.usedBytes >= (limitBytes - availableBytes) / 2 ? { kind: 'too-large', one } : undefined;
}
