// The launcher's voice: lines for the user on stderr, texts that were asked for on stdout. Synchronous, and
// never through process.stdout and process.stderr, whose streams would change the task's descriptors.
import { messageLines, type MessageLevel } from '../core/message-line.ts';
import { writeText } from '../native/write-text.ts';

const STDOUT = 1;
const STDERR = 2;

export type SayLevel = Exclude<MessageLevel, 'debug'>;

/** `capture: message`, and `  try: hint` when there is one. */
export function say(message: string, level: SayLevel, hint?: string): void {
  writeText(STDERR, messageLines(level, message, hint));
}

/** A text that the user asked for: help, version. */
export function print(text: string): void {
  writeText(STDOUT, text);
}
