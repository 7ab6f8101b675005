// The kernel also closes the files of a killed process, half-written. Pure: says which closes prove nothing, both
// while the task runs and after it ended with another status than 0.
import { type Close, isPlaced } from './file-state.ts';

/** A wrapper may exit this long after the death of its child, and pass on the child's status. */
export const WRAPPER_DELAY_MS = 10_000;
/** If the main process itself was killed, we know at once, apart from delays on a busy machine. */
const KILL_DELAY_MS = 1000;
/** A task that lives on this long after a signal that it handled has closed its files itself. */
const HANDLED_LIFE_MS = 200;
/** The content's change and the close have times of two clocks, each in whole ms. */
const ROUNDING_MS = 2;

export interface TaskEnding {
  /** Exit code 0, or one that the user trusts. */
  readonly clean: boolean;
  readonly endedAtMs: number;
  /** When the first signal that asks the task to end was sent. It killed no process before that instant. */
  readonly signalledAtMs: number | undefined;
  /** When capture stopped processes that the task left behind and that still wrote. */
  readonly writersStoppedAtMs: number | undefined;
  /** A signal ended the main process, so it did not handle the signal. */
  readonly bySignal: boolean;
}

/**
 * From this instant on, no death that comes to light can make the last close of a file suspect: ms since the epoch, 0
 * for at once. Until then the result's content is stored under another name. After a signal that asks the task to end,
 * only a clean close is proven before the end.
 */
export function provenFromMs(close: Close | undefined, signalledAtMs: number | undefined): number {
  if (close === undefined || isProof(close)) return 0;
  return signalledAtMs !== undefined && close.atMs >= signalledAtMs
    ? Infinity
    : close.atMs + WRAPPER_DELAY_MS;
}

/**
 * The close that made the content of a file, last changed at `changedMs`. If the change is later than the last known
 * close, nobody knows who closed it: it was written under another name of the file, or through a mapping.
 */
export function closeOfContent(
  close: Close | undefined,
  changedMs: number,
  nowMs: number,
): Close | undefined {
  if (close === undefined || !isAfter(changedMs, close)) return close;
  return { how: 'scan', evidence: 'unknown', atMs: Math.min(changedMs, nowMs), seq: close.seq };
}

/** True if the file was changed after this close. */
export function isAfter(changedMs: number, { atMs }: Close): boolean {
  return changedMs > atMs + ROUNDING_MS;
}

/** A dying process renames and links nothing. If no process died, the closing process is alive. */
function isProof({ how, evidence }: Close): boolean {
  return isPlaced(how) || evidence === 'clean';
}

/** True if the kernel may have made the last close of a file for a dying writer. */
export function isSuspect(close: Close | undefined, ending: TaskEnding): boolean {
  if (close === undefined || isPlaced(close.how)) return false;
  const { clean, writersStoppedAtMs, signalledAtMs, endedAtMs, bySignal } = ending;
  // capture had to stop this writer, so neither the task's exit status nor a close of its own proves anything.
  if (writersStoppedAtMs !== undefined && close.atMs >= writersStoppedAtMs) return true;
  if (clean || isProof(close)) return false;
  const isUnsignalled = signalledAtMs === undefined || close.atMs < signalledAtMs;
  // A process has died, and a signal may have ended its wrapper before that could pass on the status.
  if (close.evidence === 'doubtful' && isUnsignalled) return endedAtMs - close.atMs < WRAPPER_DELAY_MS;
  if (signalledAtMs === undefined)
    return endedAtMs - close.atMs < (bySignal ? KILL_DELAY_MS : WRAPPER_DELAY_MS);
  if (close.atMs < signalledAtMs) return false;
  return bySignal || endedAtMs - close.atMs < HANDLED_LIFE_MS;
}
