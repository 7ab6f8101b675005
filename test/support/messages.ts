// Reads what capture said: lines without their times, or the events of `--log-format json`.
import type { EventName } from '../../src/model/format/message-fields.ts';

const STAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (?=capture: )/gm;

/** The text without the time in front of each message. */
export function unstamped(text: string): string {
  return text.replaceAll(STAMP, '');
}

export interface Told {
  readonly event: EventName;
  readonly level: number;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** Options that make capture log every event, for {@link told}. */
export const TELL_ALL = ['--log-level', 'debug', '--log-format', 'json'] as const;

/** The JSON lines of one event, or of all. Leaves out a line that is not complete yet. */
export function told(text: string, event?: EventName): readonly Told[] {
  const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n');
  const all = lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Told);
  return event === undefined ? all : all.filter((one) => one.event === event);
}
