// A death is not a close: the kernel also closes the files of a process that is killed, half-written. Pure: says
// which closes prove nothing, while the task runs and once it has not ended with 0.
import { type Close, isPlaced } from './file-state.ts';

/** An exit status may be a wrapper's, which passes on a death that is this old. */
export const LATE_NEWS_MS = 10_000;
/** If the main process itself was killed, we know at once, apart from delays on a busy machine. */
const PROMPT_NEWS_MS = 1000;
/** A task that lives on this long after a signal that it handled has closed its files itself. */
const HANDLED_LIFE_MS = 200;
/** Two clocks tell when the content changed and when the file was closed, each in whole ms. */
const ROUNDING_MS = 2;

export interface Ending {
  /** Exit code 0, or one that the user trusts. */
  readonly clean: boolean;
  readonly endedAtMs: number;
  /** When the first signal that asks it to end was sent to the task: no death closed what was closed before. */
  readonly signalledAtMs: number | undefined;
  /** When processes were told to end that the task left behind and that still wrote. */
  readonly writersStoppedAtMs: number | undefined;
  /** The main process ended by a signal: it handled nothing. */
  readonly killed: boolean;
  /**
   * By a signal with which users and schedulers end a task, so an older death has not ended it. False for SIGKILL: the
   * OOM killer may have taken one process after the other.
   */
  readonly asked: boolean;
}

/**
 * From when on no death that comes to light can make the last close of a file suspect: ms since the epoch, 0 for at
 * once. Before that a result's content has not the result's own name. After a signal that asks the task to end, only a clean close is certain before the end.
 */
export function provenFromMs(close: Close | undefined, signalledAtMs: number | undefined): number {
  if (close === undefined || isProof(close)) return 0;
  return signalledAtMs !== undefined && close.atMs >= signalledAtMs ? Infinity : close.atMs + LATE_NEWS_MS;
}

/**
 * The close that made the content of a file, which was changed last at `changedMs`. If that is after the last close that
 * we heard of, nobody knows who closed it: it was written under another name of the file, or through a mapping.
 */
export function closeOfContent(
  close: Close | undefined,
  changedMs: number,
  nowMs: number,
): Close | undefined {
  if (close === undefined || !isAfter(changedMs, close)) return close;
  return { how: 'scan', evidence: 'unknown', atMs: Math.min(changedMs, nowMs), seq: close.seq };
}

/** True if a file that was changed then was changed after the close. */
export function isAfter(changedMs: number, { atMs }: Close): boolean {
  return changedMs > atMs + ROUNDING_MS;
}

/** A dying process renames and links nothing; and if nobody died, whoever closed the file lives on. */
function isProof({ how, evidence }: Close): boolean {
  return isPlaced(how) || evidence === 'clean';
}

/** True if its writer's death may have made the last close of a file. */
export function isSuspect(close: Close | undefined, ending: Ending): boolean {
  if (close === undefined || isPlaced(close.how)) return false;
  const { clean, writersStoppedAtMs, signalledAtMs, endedAtMs, killed, asked } = ending;
  // This writer had to be stopped, so it does not matter how well the task ended, or whether it closed the file
  // itself.
  if (writersStoppedAtMs !== undefined && close.atMs >= writersStoppedAtMs) return true;
  if (clean || isProof(close)) return false;
  const isUnsignalled = signalledAtMs === undefined || close.atMs < signalledAtMs;
  // A process has died, and a wrapper may pass that on as its own end. A signal from outside is another reason.
  if (close.evidence === 'doubtful' && isUnsignalled)
    return endedAtMs - close.atMs < (asked ? PROMPT_NEWS_MS : LATE_NEWS_MS);
  if (signalledAtMs === undefined) return endedAtMs - close.atMs < (killed ? PROMPT_NEWS_MS : LATE_NEWS_MS);
  if (close.atMs < signalledAtMs) return false;
  return killed || endedAtMs - close.atMs < HANDLED_LIFE_MS;
}
