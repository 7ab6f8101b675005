// One sidecar for all tasks of a machine: the variables by which a launcher finds it, its messages to its runner, and
// the framing of messages on a connection.

/** A runner (`capture array`, `capture worker`) sets it for each launcher: its pid. */
export const RUNNER_VARIABLE = 'CAPTURED_RUNNER';
/** A runner sets it for each launcher, and all its processes inherit it: the file for stdout and stderr. */
export const TASK_LOG_VARIABLE = 'CAPTURED_TASK_LOG';
/** Beside that file, until the task ends: why the runner stops the task (stop-cause.ts). */
export const STOP_FILE_ENDING = '.stop';
/** A runner sets it for each launcher: the socket of the sidecar that all its tasks share. */
export const SIDECAR_VARIABLE = 'CAPTURED_SIDECAR';
/**
 * The offset of the runner's clock (native/clock), for its launchers and their sidecar. So the instants in all their
 * messages refer to one clock, even after a sidecar was replaced.
 */
export const CLOCK_VARIABLE = 'CAPTURED_CLOCK';
/** The key of the newest record of its index when the array began; empty if there was none. */
export const LAST_SEEN_VARIABLE = 'CAPTURED_LAST_SEEN';

/** What one task, or all tasks of a shared sidecar, have stored, and what still waits. */
export interface LifeNumbers {
  /** Age of the oldest closed content that is not stored yet. */
  readonly lagMs: number;
  readonly waitingFiles: number;
  readonly storedFiles: number;
  /** Before compression. */
  readonly storedBytes: number;
}

export const NO_NUMBERS: LifeNumbers = { lagMs: 0, waitingFiles: 0, storedFiles: 0, storedBytes: 0 };

/** The sum over several tasks, except the lag: the largest. */
export function numbersOf(all: Iterable<LifeNumbers>): LifeNumbers {
  let { lagMs, waitingFiles, storedFiles, storedBytes } = NO_NUMBERS;
  for (const one of all) {
    lagMs = Math.max(lagMs, one.lagMs);
    waitingFiles += one.waitingFiles;
    storedFiles += one.storedFiles;
    storedBytes += one.storedBytes;
  }
  return { lagMs, waitingFiles, storedFiles, storedBytes };
}

/** The messages of a shared sidecar to its runner, over the fork channel. */
export type FromSharedSidecar =
  /** Launchers may connect. */
  | { readonly kind: 'listening' }
  /** The reply to each message from the runner: the sidecar does not hang. */
  | { readonly kind: 'alive' }
  /** It cannot listen on its socket, and exits. */
  | { readonly kind: 'listen-failed'; readonly why: string }
  /** It starts, or stops, to work for the launcher with this pid. */
  | { readonly kind: 'life-begun' | 'life-over'; readonly launcher: number }
  /** Totals over all tasks since it began, ended ones included; sent only after a change. */
  | { readonly kind: 'numbers'; readonly numbers: LifeNumbers };

/** One message on a connection: a line of JSON, which contains no line feed. */
export function messageText(message: object): string {
  return `${JSON.stringify(message)}\n`;
}

/** Far more than settings with all patterns and an environment need. */
const LONGEST_LINE = 16 * 2 ** 20;

/** Splits the text that arrives on a connection into messages. */
export class MessageReader {
  #rest = '';

  /**
   * The messages that are complete by now. Throws on anything that is not a message: capture does not send such text.
   */
  read(piece: string): readonly unknown[] {
    const lines = (this.#rest + piece).split('\n');
    this.#rest = lines.pop() ?? '';
    if (this.#rest.length > LONGEST_LINE) throw new Error('a message has no end');
    return lines.map((line) => JSON.parse(line) as unknown);
  }
}
