// stdout of a command: only what was asked for, tables, JSON and bytes of objects. A reader that goes away (`| head`) ends
// the command without a word.
import type { Writable } from 'node:stream';
import { once } from 'node:events';
import { styleText } from 'node:util';
import { CaptureError, errnoOf, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { showPath } from '../model/path.ts';
import { ShownBytes } from '../model/shown-bytes.ts';

/** SIGPIPE would have ended another program (signal(7)); Node ignores it and gives EPIPE. */
export class ReaderGone extends Error {
  constructor() {
    super('nobody reads stdout any more');
    this.name = 'ReaderGone';
  }
}

export type Colour = 'red' | 'green' | 'yellow' | 'blue' | 'magenta' | 'cyan' | 'gray' | 'bold';

export interface Output {
  /** Resolves when there is room for more. Throws {@link ReaderGone} if nobody reads, or status 70 if it cannot write. */
  write(text: string | Uint8Array): Promise<void>;
  /** One line, in this colour: text of others in it is never more than text. */
  line(text: string, colour?: Colour): Promise<void>;
  /** Bytes of others, for programs: as they are, but on a terminal as text. */
  passOn(bytes: Uint8Array): Promise<void>;
  /** Resolves when all has left this process: process.exit() loses what has not. Throws as `write` does. */
  flush(): Promise<void>;
  /** The text in this colour, if stdout is a terminal that has colours (NO_COLOR and TERM are obeyed). */
  paint(colour: Colour, text: string): string;
  readonly isTerminal: boolean;
  /** Width of the terminal; no end if it is none: what reads a pipe wants all of a line. */
  readonly columns: number;
  /** Its height; undefined if it is none: then nothing need fit. */
  readonly rows: number | undefined;
}

/**
 * stdout, opened at the first use: the stream makes a shared pipe non-blocking, which a task must not see. `onBroken` is
 * called once if nothing more can be written: what {@link Output.write} then throws.
 */
export function openOutput(onBroken: (why: Error) => void): Output {
  let opened: Opened | undefined;
  let broken: Error | undefined;
  const open = (): Opened => {
    if (opened !== undefined) return opened;
    const { stdout } = process;
    stdout.on('error', (error) => {
      if (broken !== undefined) return;
      broken = errnoOf(error) === 'EPIPE' ? new ReaderGone() : notWritten(error);
      onBroken(broken);
    });
    return (opened = { stdout, shown: stdout.isTTY ? new ShownBytes() : undefined });
  };
  const paint = (colour: Colour, text: string): string => {
    const { stdout } = open();
    return stdout.isTTY && stdout.hasColors() ? styleText(colour, text) : text;
  };
  const write = async (text: string | Uint8Array): Promise<void> => {
    const { stdout } = open();
    if (broken !== undefined) throw broken;
    if (!stdout.write(text)) await roomIn(stdout);
    if (broken !== undefined) throw broken;
  };
  return {
    write,
    line: (text, colour) => {
      const line = showPath(text);
      return write(`${colour === undefined ? line : paint(colour, line)}\n`);
    },
    passOn: (bytes) => write(open().shown?.add(bytes) ?? bytes),
    flush: async () => {
      if (opened === undefined) return;
      const { stdout, shown } = opened;
      if (shown !== undefined) await write(shown.end());
      // In the order of the writes; the error of an earlier one is told a moment later.
      await new Promise((resolve) => {
        stdout.write('', () => setImmediate(resolve));
      });
      if (broken !== undefined) throw broken;
    },
    paint,
    get isTerminal() {
      return open().stdout.isTTY;
    },
    // Not kept: a window may be resized.
    get columns() {
      const { stdout } = open();
      return stdout.isTTY ? stdout.columns : Infinity;
    },
    get rows() {
      const { stdout } = open();
      return stdout.isTTY ? stdout.rows : undefined;
    },
  };
}

interface Opened {
  readonly stdout: NodeJS.WriteStream;
  /** On a terminal. */
  readonly shown: ShownBytes | undefined;
}

/** A full disk, most often. */
function notWritten(error: unknown): CaptureError {
  return new CaptureError(EXIT.internal, `cannot write to stdout: ${reasonOf(error)}`, {
    hint: 'what was written is not all of it',
    cause: error,
  });
}

async function roomIn(stream: Writable): Promise<void> {
  // An error is told to the listener above.
  await once(stream, 'drain').catch(() => undefined);
}
