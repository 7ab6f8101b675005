// stdout of a command: only the requested tables, JSON and bytes of objects. If the reader goes away (`| head`), the
// command ends silently.
import type { Writable } from 'node:stream';
import { once } from 'node:events';
import { styleText } from 'node:util';
import { CaptureError, errnoOf, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { decodePath, showLines, showPath } from '../model/path.ts';

/** Node ignores SIGPIPE (signal(7)), which would end other programs, and reports EPIPE instead. */
export class ReaderGone extends Error {
  constructor() {
    super('nobody reads stdout any more');
    this.name = 'ReaderGone';
  }
}

export type Colour = 'red' | 'green' | 'yellow' | 'blue' | 'magenta' | 'cyan' | 'gray' | 'bold';

export interface Output {
  /**
   * Resolves when there is room for more. Throws {@link ReaderGone} if the reader is gone, or status 70 if it cannot
   * write.
   */
  write(text: string | Uint8Array): Promise<void>;
  /** Writes one line in this colour. Control characters in it are made harmless. */
  line(text: string, colour?: Colour): Promise<void>;
  /** Writes foreign bytes: unchanged to programs, as safe text to a terminal. */
  passOn(bytes: Uint8Array): Promise<void>;
  /** Resolves when all data has left this process, because process.exit() drops the rest. Throws like `write`. */
  flush(): Promise<void>;
  /** Colours the text if stdout is a terminal with colours (respects NO_COLOR and TERM). */
  paint(colour: Colour, text: string): string;
  readonly isTerminal: boolean;
  /** Width of the terminal. Infinity if stdout is none, because programs need whole lines. */
  readonly columns: number;
  /** Height of the terminal. Undefined if stdout is none, so nothing must fit. */
  readonly rows: number | undefined;
}

/**
 * Opens stdout on first use, because the stream makes a shared pipe non-blocking, which a task must not see. `onBroken`
 * is called once if stdout is broken, with the error that {@link Output.write} then throws.
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
      // Callbacks run in the order of the writes. The error of an earlier write may arrive a moment later.
      await new Promise((resolve) => {
        stdout.write('', () => setImmediate(resolve));
      });
      if (broken !== undefined) throw broken;
    },
    paint,
    get isTerminal() {
      return open().stdout.isTTY;
    },
    // Read each time, because a window may be resized.
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
  /** Set on a terminal. */
  readonly shown: ShownBytes | undefined;
}

/** Usually a full disk. */
function notWritten(error: unknown): CaptureError {
  return new CaptureError(EXIT.internal, `cannot write to stdout: ${reasonOf(error)}`, {
    hint: 'what was written is not all of it',
    cause: error,
  });
}

async function roomIn(stream: Writable): Promise<void> {
  // The listener above handles the error.
  await once(stream, 'drain').catch(() => undefined);
}

const NONE = Buffer.alloc(0);
const [CARRIAGE_RETURN, FIRST_OF_SEVERAL, CONTINUES] = [0x0d, 0xc0, 0x80];
/** The longest UTF-8 character without its last byte. */
const MOST_BEFORE = 3;

/**
 * Makes foreign bytes (task output, file contents) safe for a terminal. Line feeds and tabs stay. Everything else that is
 * not text is escaped (model/path.ts), and so are bytes that are not UTF-8. Takes the pieces of one stream, in order.
 */
export class ShownBytes {
  /** The beginning of a character, or of a line ending, whose rest comes with the next piece. */
  #held: Buffer = NONE;

  add(piece: Uint8Array): string {
    const bytes = Buffer.concat([this.#held, piece]);
    const whole = bytes.length - unfinished(bytes);
    this.#held = bytes.subarray(whole);
    return showLines(decodePath(bytes.subarray(0, whole)));
  }

  /** The rest, once the stream has ended. */
  end(): string {
    const rest = this.#held;
    this.#held = NONE;
    return showLines(decodePath(rest));
  }
}

/** How many bytes at the end may be the beginning of a longer character or line ending. */
function unfinished(bytes: Buffer): number {
  if (bytes.at(-1) === CARRIAGE_RETURN) return 1;
  for (let count = 1; count <= Math.min(MOST_BEFORE, bytes.length); count += 1) {
    const byte = bytes.at(-count) ?? 0;
    if (byte >= FIRST_OF_SEVERAL) return count < lengthOf(byte) ? count : 0;
    if (byte < CONTINUES) return 0;
  }
  return 0;
}

/** The length of a UTF-8 character by its first byte (RFC 3629, section 3). */
function lengthOf(first: number): number {
  return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
}
