// How a message looks on the terminal and in a scheduler's output file. Pure; a file name in it can never forge a
// line of its own.
import { showPath } from '../path.ts';
import { plural } from '../units.ts';

export type MessageLevel = 'debug' | 'info' | 'warn' | 'error';

const LABEL = { debug: 'debug: ', info: '', warn: 'warning: ', error: '' } as const;

/** Erases everything to the right of the cursor (ECMA-48, EL): the rest of a progress line below the message. */
const ERASE_REST = '\u001b[K';

/**
 * `capture: warning: message`, and `  try: hint` on a line of its own; ends with a line feed. `at`: the time, which
 * comes first; undefined on a terminal, where somebody is watching.
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

/** Takes the place of messages that were dropped while nobody read. */
export function droppedLine(count: number, at: Date | undefined): string {
  return messageLines('warn', `${plural(count, 'message')} dropped: nobody read them`, undefined, at);
}
