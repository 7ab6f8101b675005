// How a message looks on the terminal and in a scheduler's output file. Pure; a file name in it can never forge a
// line.
import { showPath } from '../path.ts';
import { plural } from '../units.ts';

export type MessageLevel = 'debug' | 'info' | 'warn' | 'error';

const LABEL = { debug: 'debug: ', info: '', warn: 'warning: ', error: '' } as const;

/**
 * Erases everything to the right of the cursor (ECMA-48, EL): the rest of the progress line that the message
 * overwrites.
 */
const ERASE_REST = '\u001b[K';

/**
 * `capture: warning: message`, and ` try: hint` on a line of its own; ends with a line feed. `at`: the time, printed
 * first; undefined on a terminal, where the user is watching.
 */
export function messageLines(
  level: MessageLevel,
  message: string,
  hint: string | undefined,
  at: Date | undefined,
): string {
  const [stamp, end] = at === undefined ? ['', `${ERASE_REST}\n`] : [`${at.toISOString()} `, '\n'];
  const line = `${stamp}capture: ${LABEL[level]}${showPath(message)}${end}`;
  return hint === undefined ? line : `${line}  try: ${showPath(hint)}${end}`;
}

/** Replaces messages that were dropped because nobody read them. */
export function droppedLine(count: number, at: Date | undefined): string {
  return messageLines('warn', `${plural(count, 'message')} dropped: nobody read them`, undefined, at);
}
