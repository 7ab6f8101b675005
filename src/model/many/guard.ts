// Which task must go when memory runs short. It sees the figures of each moment, and names the youngest task, so that
// the least work is lost, but never the last running one. In memory only; times are arguments.
import { type RunningTask, lowMemoryBytes } from './admission.ts';

export interface MemoryState {
  readonly nowMs: number;
  /** The smaller of MemAvailable and the cgroup's free memory (its page cache counts as free). */
  readonly availableBytes: number;
  /** The smaller of MemTotal and the cgroup's limit. */
  readonly limitBytes: number;
  /**
   * PSI memory `full avg10`: the percentage of time in which all tasks stalled on memory; 0 if the kernel has no PSI.
   */
  readonly psiFullPercent: number;
}

export type GuardVerdict<T> =
  | { readonly kind: 'calm' }
  /** Start none; running tasks continue. */
  | { readonly kind: 'hold' }
  /**
   * `give-back`: this task checkpoints, ends, and waits for its turn. `too-large`: it runs alone and the machine is
   * too small for it, so it fails and reports what it needed.
   */
  | { readonly kind: 'give-back' | 'too-large'; readonly one: T };

/** The memory that the previous task frees is visible only after some time. */
const BETWEEN_VICTIMS_MS = 5000;
/** One of ten seconds was lost to memory stalls (kernel, Documentation/accounting/psi.rst). */
const STALLED_PERCENT = 10;

export class MemoryGuard {
  #isPressed = false;
  #lastMs = -Infinity;

  /** Call it about once a second. The caller tells the named task to end, and sets its `isEnding` from then on. */
  look<T extends RunningTask>(moment: MemoryState, running: readonly T[]): GuardVerdict<T> {
    const { nowMs, availableBytes, limitBytes, psiFullPercent } = moment;
    const short = lowMemoryBytes(limitBytes);
    // Reading many files stalls, too. So stalls count only if little memory is available.
    const isEased = availableBytes >= 2 * short;
    const isShort = availableBytes < short || (!isEased && psiFullPercent >= STALLED_PERCENT);
    if (isEased) this.#isPressed = false;
    if (isShort) this.#isPressed = true;
    if (!this.#isPressed) return { kind: 'calm' };
    if (!isShort || nowMs < this.#lastMs + BETWEEN_VICTIMS_MS) return { kind: 'hold' };
    const isCritical = availableBytes < short / 2;
    const verdict = choose(running, isCritical);
    if (verdict !== undefined) {
      this.#lastMs = nowMs;
      return verdict;
    }
    return isCritical ? (tooLarge(moment, running) ?? { kind: 'hold' }) : { kind: 'hold' };
  }
}

/**
 * While a task is ending, wait for its memory, as long as any is left. Of two tasks that began together, the later one
 * in the list goes.
 */
function choose<T extends RunningTask>(
  running: readonly T[],
  isCritical: boolean,
): GuardVerdict<T> | undefined {
  const staying = running.filter(({ isEnding }) => !isEnding);
  if (staying.length < 2 || (staying.length < running.length && !isCritical)) return undefined;
  return { kind: 'give-back', one: staying.reduce((a, b) => (b.startedMs >= a.startedMs ? b : a)) };
}

/** A task is not to blame for the memory of other programs on this machine. */
function tooLarge<T extends RunningTask>(
  { availableBytes, limitBytes }: MemoryState,
  running: readonly T[],
): GuardVerdict<T> | undefined {
  const [one] = running;
  if (one === undefined || running.length > 1 || one.isEnding) return undefined;
  return one.usedBytes >= (limitBytes - availableBytes) / 2 ? { kind: 'too-large', one } : undefined;
}
