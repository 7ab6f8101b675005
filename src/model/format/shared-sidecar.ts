// One sidecar for all tasks of a machine: by which variables a launcher finds it, what it tells the runner that has
// started it, and how messages stand in the bytes of a connection.

/** Set by a runner for each launcher: the socket of the sidecar that all its tasks share. */
export const SIDECAR_VARIABLE = 'CAPTURED_SIDECAR';
/**
 * The offset of the runner's clock (native/clock), for its launchers and their sidecar: instants in the messages of all
 * of them are of one clock, also after a sidecar was replaced.
 */
export const CLOCK_VARIABLE = 'CAPTURED_CLOCK';

/** What one task, or all that share a sidecar, has stored, and what waits. */
export interface LifeNumbers {
  /** Age of the oldest closed content that is not stored yet. */
  readonly lagMs: number;
  readonly waitingFiles: number;
  readonly storedFiles: number;
  /** Before compression. */
  readonly storedBytes: number;
}

export const NO_NUMBERS: LifeNumbers = { lagMs: 0, waitingFiles: 0, storedFiles: 0, storedBytes: 0 };

/** Of several tasks together: the largest lag, and all else in sum. */
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

/** What a shared sidecar tells its runner, over the fork channel. */
export type FromShared =
  /** Launchers may connect. */
  | { readonly kind: 'listening' }
  /** The answer to each message that it gets there: it does not hang. */
  | { readonly kind: 'alive' }
  /** It cannot listen there, and ends. */
  | { readonly kind: 'deaf'; readonly why: string }
  /** It works for the launcher with this pid, from now on or no longer. */
  | { readonly kind: 'life-begun' | 'life-over'; readonly launcher: number }
  /** Of all tasks since it began, those that have ended too; told only if they have changed. */
  | { readonly kind: 'numbers'; readonly numbers: LifeNumbers };

/** One message on a connection: a line of JSON, which has no line feed of its own. */
export function messageText(message: object): string {
  return `${JSON.stringify(message)}\n`;
}

/** Settings with all patterns, and an environment, are far shorter. */
const LONGEST_LINE = 16 * 2 ** 20;

/** The messages in the text that comes over a connection, piece by piece. */
export class MessageReader {
  #rest = '';

  /** Those that are whole by now. Throws for what is no message: whoever sends it is none of us. */
  read(piece: string): readonly unknown[] {
    const lines = (this.#rest + piece).split('\n');
    this.#rest = lines.pop() ?? '';
    if (this.#rest.length > LONGEST_LINE) throw new Error('a message has no end');
    return lines.map((line) => JSON.parse(line) as unknown);
  }
}
