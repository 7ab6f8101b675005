// The launcher's messages to the user on stderr. It never uses process.stderr, because that stream would change the
// descriptor that the task shares.
import tty from 'node:tty';
import type { Log } from '../log/log.ts';
import { Outlet } from '../log/outlet.ts';
import type { MessageFields } from '../model/format/message-fields.ts';
import { droppedLine, type MessageLevel, messageLines } from '../model/format/message-line.ts';

const STDERR = 2;

export type SayLevel = Exclude<MessageLevel, 'debug'>;

const stderr = new Outlet(STDERR, (count) => droppedLine(count, now()));

/** Writes `capture: message`, and `  try: hint` if there is a hint. Never waits for a reader. */
export function say(message: string, level: SayLevel, { hint }: MessageFields = {}): void {
  stderr.write(messageLines(level, message, hint, now()));
}

/** Without a time on a terminal. */
function now(): Date | undefined {
  return tty.isatty(STDERR) ? undefined : new Date();
}

/** Plain messages without a logger. `close` resolves once all messages were read, or the reader is gone. */
export const plainLog: Log = {
  debug: () => undefined,
  info: (message, fields) => say(message, 'info', fields),
  warn: (message, fields) => say(message, 'warn', fields),
  error: (message, fields) => say(message, 'error', fields),
  ofAttempt: () => undefined,
  draw: undefined,
  close: () => stderr.drain(),
};
