// How a message looks on the terminal and in a scheduler's output file. Pure; a file name in it can never
// forge a line of its own.
import { showPath } from './path.ts';
import { plural } from './units.ts';

export type MessageLevel = 'debug' | 'info' | 'warn' | 'error';

const LABEL = { debug: 'debug: ', info: '', warn: 'warning: ', error: '' } as const;

/** `capture: warning: message`, and `  try: hint` on a line of its own; ends with a line feed. */
export function messageLines(level: MessageLevel, message: string, hint?: string): string {
  const line = `capture: ${LABEL[level]}${showPath(message)}\n`;
  return hint === undefined ? line : `${line}  try: ${showPath(hint)}\n`;
}

/** Stands for messages that were dropped while nobody read. */
export function droppedLine(count: number): string {
  return messageLines('warn', `${plural(count, 'message')} dropped: nobody read them`);
}
