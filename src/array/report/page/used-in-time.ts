// What all attempts of an index used, on one time axis, with a gap between two attempts. Pure.
import { type AttemptRow, type Line, LINES } from '../data.ts';

export interface UsedInTime {
  /** Ascending, s since the epoch. The last one is that of the last sample. */
  readonly times: readonly number[];
  /** For each time; null where nothing was measured. A line that was never measured is absent. */
  readonly lines: { readonly [line in Line]?: readonly (number | null)[] };
}

export function usedInTime(attempts: readonly AttemptRow[]): UsedInTime {
  const times: number[] = [];
  const values: Record<Line, (number | null)[]> = {
    taskCpu: [],
    taskMemory: [],
    taskWritten: [],
    space: [],
  };
  const add = (time: number, of: (line: Line) => number | null): void => {
    // Times must ascend, but the clocks of two machines may differ.
    times.push(Math.max(time, (times.at(-1) ?? -Infinity) + 1));
    for (const line of LINES) values[line].push(of(line));
  };
  for (const { used } of attempts) {
    if (used === undefined) continue;
    const { from, step, lines } = used;
    const valueOf = (line: Line, at: number): number | null => {
      const value = lines[line]?.values[at] ?? null;
      return value === null ? null : value * (lines[line]?.unit ?? 1);
    };
    const count = Math.max(
      ...LINES.map((line) => 1 + (lines[line]?.values.findLastIndex((one) => one !== null) ?? -1)),
    );
    if (count > 0 && times.length > 0) add(-Infinity, () => null);
    for (let at = 0; at < count; at += 1) add(from + at * step, (line) => valueOf(line, at));
  }
  const seen = LINES.filter((line) => values[line].some((value) => value !== null));
  return { times, lines: Object.fromEntries(seen.map((line) => [line, values[line]])) };
}
