// capture's messages while it works: pino's levels and JSON, or plain lines for people. It never touches
// process.stdout and process.stderr: their streams would change the task's own descriptors.
import fs from 'node:fs';
import tty from 'node:tty';
import { pino } from 'pino';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import type { MessageFields } from '../model/format/message-fields.ts';
import { droppedLine, messageLines, type MessageLevel } from '../model/format/message-line.ts';
import type { LogSettings } from '../model/format/settings.ts';
import { safeJson, showPath } from '../model/path.ts';
import { openToAppend } from '../native/files.ts';
import { Outlet } from './outlet.ts';

export interface Log {
  debug(message: string, fields?: MessageFields): void;
  info(message: string, fields?: MessageFields): void;
  warn(message: string, fields?: MessageFields): void;
  error(message: string, fields?: MessageFields): void;
  /** From now on each line names this attempt. Call it once. */
  ofAttempt(attempt: number): void;
  /** Draws on the terminal, unless messages wait for it. Undefined without a terminal, or if drawing is off. */
  readonly draw: ((text: string) => void) | undefined;
  /** Waits until everything is read, at most a second if nobody reads, and closes the file. */
  close(): Promise<void>;
}

const METADATA: unique symbol = Symbol.for('pino.metadata');
const STDERR = 2;
/** Most characters of a message. */
const LONGEST_MESSAGE = 10_000;
/** Pino's level "error": with a log file, messages from this level on also go to stderr. */
const ERROR = 50;

/**
 * Opens the log of the settings: stderr, or a file, to which lines are appended. With a file, only errors go to stderr
 * as well. A line is written before the call returns. If nobody reads, it waits in a bounded queue; a full queue drops
 * and counts its oldest lines. `stderrFd`: stderr of the process whose messages these are; its owner closes it.
 *
 * @throws CaptureError with status 64 if the file cannot be opened.
 */
export function openLog(settings: LogSettings, index?: string, stderrFd = STDERR): Log {
  const fd = settings.file === undefined ? stderrFd : openFile(settings.file);
  const now = (): Date | undefined => (fd === stderrFd && tty.isatty(stderrFd) ? undefined : new Date());
  const sayDropped =
    settings.format === 'json' ? droppedJson : (count: number): string => droppedLine(count, now());
  const stderr = new Outlet(stderrFd, sayDropped);
  const main = fd === stderrFd ? stderr : new Outlet(fd, sayDropped);
  const destination = destinationOf(settings, main, { outlet: stderr, isTerminal: tty.isatty(stderrFd) });
  const logger = pino({ level: settings.level }, destination);
  logger.setBindings({ index });
  const at =
    (level: MessageLevel): Log[MessageLevel] =>
    (message, fields = {}) =>
      logger[level]({ event: 'message', ...fields }, cut(message));
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    ofAttempt: (attempt) => logger.setBindings({ attempt }),
    draw: wantsDrawing(settings, stderrFd)
      ? (text) => {
          if (!stderr.isWaiting) stderr.write(text);
        }
      : undefined,
    close: async () => {
      await Promise.all([main.drain(), stderr.drain()]);
      main.close();
      if (stderr !== main) stderr.close();
      if (fd !== stderrFd) fs.closeSync(fd);
    },
  };
}

/** A message may contain foreign text of any length. */
function cut(message: string): string {
  const more = message.length - LONGEST_MESSAGE;
  return more <= 0 ? message : `${message.slice(0, LONGEST_MESSAGE)}... (${more} characters more)`;
}

function wantsDrawing({ format, level }: LogSettings, stderrFd: number): boolean {
  return format === 'text' && (level === 'info' || level === 'debug') && tty.isatty(stderrFd);
}

function openFile(file: string): number {
  try {
    return openToAppend(file);
  } catch (error) {
    throw new CaptureError(EXIT.usage, `cannot write the log file ${showPath(file)}: ${reasonOf(error)}`, {
      hint: 'name a file in a directory that exists and can be written: --log-file capture.log',
      cause: error,
    });
  }
}

/** pino's destination: before each line pino sets level, fields and message on it (pino, "Destination metadata"). */
interface Destination {
  readonly [METADATA]: true;
  lastLevel: number;
  lastMsg: string;
  lastObj: MessageFields | null;
  write(json: string): void;
}

function destinationOf(
  settings: LogSettings,
  main: Outlet,
  { outlet: stderr, isTerminal }: { readonly outlet: Outlet; readonly isTerminal: boolean },
): Destination {
  const destination: Destination = {
    [METADATA]: true,
    lastLevel: 0,
    lastMsg: '',
    lastObj: null,
    write: (json) => {
      const { lastLevel, lastMsg, lastObj } = destination;
      const text = (when: Date | undefined): string =>
        settings.format === 'json'
          ? safeJson(json)
          : messageLines(levelName(lastLevel), lastMsg, lastObj?.hint, when);
      if (main !== stderr) main.write(text(new Date()));
      if (main === stderr || lastLevel >= ERROR) stderr.write(text(isTerminal ? undefined : new Date()));
    },
  };
  return destination;
}

function levelName(level: number): MessageLevel {
  const name = pino.levels.labels[level];
  return name === 'debug' || name === 'warn' || name === 'error' ? name : 'info';
}

/** The same line as pino would write. */
function droppedJson(count: number): string {
  const lines: string[] = [];
  pino({}, { write: (json) => void lines.push(json) }).warn(
    { dropped: count },
    'messages dropped: nobody read them',
  );
  return lines.join('');
}
