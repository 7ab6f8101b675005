// stdout of the commands on an array: only what was asked for, tables, JSON and bytes of objects. A reader that goes away
// (`| head`) ends the command without a word.
import type { Writable } from 'node:stream';
import { once } from 'node:events';
import { styleText } from 'node:util';

/** SIGPIPE would have ended another program (signal(7)); Node ignores it and gives EPIPE. */
export class ReaderGone extends Error {
  constructor() {
    super('nobody reads stdout any more');
    this.name = 'ReaderGone';
  }
}

export type Colour = 'red' | 'green' | 'yellow' | 'blue' | 'magenta' | 'cyan' | 'gray' | 'bold';

export interface Output {
  /** Resolves when there is room for more. Throws {@link ReaderGone} if nobody reads. */
  write(text: string | Uint8Array): Promise<void>;
  /** Resolves when all has left this process, or nobody reads: process.exit() loses what has not. */
  flush(): Promise<void>;
  /** The text in this colour, if stdout is a terminal that has colours (NO_COLOR and TERM are obeyed). */
  paint(colour: Colour, text: string): string;
  readonly isTerminal: boolean;
  /** Width of the terminal; no end if it is none: what reads a pipe wants all of a line. */
  readonly columns: number;
  /** Its height; undefined if it is none: then nothing need fit. */
  readonly rows: number | undefined;
}

/** Opens stdout. `onGone` is called once if its reader goes away. */
export function openOutput(onGone: (gone: ReaderGone) => void): Output {
  const { stdout } = process;
  let gone: ReaderGone | undefined;
  stdout.on('error', () => {
    if (gone !== undefined) return;
    gone = new ReaderGone();
    onGone(gone);
  });
  const hasColours = stdout.isTTY && stdout.hasColors();
  return {
    write: async (text) => {
      if (gone !== undefined) throw gone;
      if (!stdout.write(text)) await roomIn(stdout);
      if (gone !== undefined) throw gone;
    },
    flush: () =>
      new Promise((resolve) => {
        // In the order of the writes.
        stdout.write('', () => resolve());
      }),
    paint: (colour, text) => (hasColours ? styleText(colour, text) : text),
    isTerminal: stdout.isTTY,
    // Not kept: a window may be resized.
    get columns() {
      return stdout.isTTY ? stdout.columns : Infinity;
    },
    get rows() {
      return stdout.isTTY ? stdout.rows : undefined;
    },
  };
}

async function roomIn(stream: Writable): Promise<void> {
  // An error is told to the listener above.
  await once(stream, 'drain').catch(() => undefined);
}
