// The last lines of what a task wrote: what a person looks at first when it has failed. Pure.
import { decodePath } from './path.ts';

const LINES = 20;
/** No more is read for them. */
export const LAST_LINES_BYTES = 8192;
/** The first message of each run on the same stderr. Everything before it is from earlier attempts. */
const BEGINS = /\bcapture: task .*, attempt \d+ -> /;

/** The last lines that are not empty, at most 20, of at most the last 8 KiB of these bytes. */
export function lastLinesOf(bytes: Uint8Array): readonly string[] {
  const lines = decodePath(bytes.subarray(-LAST_LINES_BYTES)).split('\n');
  const begun = lines.findLastIndex((line) => BEGINS.test(line));
  return lines
    .slice(begun + 1)
    .filter((line) => line.trim() !== '')
    .slice(-LINES);
}
