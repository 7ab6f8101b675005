// What the launcher says: lines for the user on stderr, texts that were asked for on stdout. It never uses
// process.stdout and process.stderr: their streams would change the task's descriptors.
import tty from 'node:tty';
import { Outlet } from '../log/outlet.ts';
import type { MessageFields } from '../model/format/message-fields.ts';
import { droppedLine, type MessageLevel, messageLines } from '../model/format/message-line.ts';
import { writeText } from '../native/shared-output.ts';

const STDOUT = 1;
const STDERR = 2;

export type SayLevel = Exclude<MessageLevel, 'debug'>;

const stderr = new Outlet(STDERR, (count) => droppedLine(count, now()));

/** `capture: message`, and `  try: hint` when there is one. Never waits for a reader. */
export function say(message: string, level: SayLevel, { hint }: MessageFields = {}): void {
  stderr.write(messageLines(level, message, hint, now()));
}

/** On a terminal nobody needs the time. */
function now(): Date | undefined {
  return tty.isatty(STDERR) ? undefined : new Date();
}

/** Before the process ends: resolves once all that was said is read, or nobody reads. */
export function allSaid(): Promise<void> {
  return stderr.drain();
}

/** A text that the user asked for: help, version. */
export function print(text: string): void {
  writeText(STDOUT, text);
}
