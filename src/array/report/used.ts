// The series of an attempt for the page, reduced to the steps that the page has room for. Pure.
import type { Resources } from '../../model/format/resources.ts';
import { type Line, LINES, type Used, type Values } from './data.ts';

/** The limit for the numbers in all series of a page: about 2 MB packed, and 20 MB of the browser's memory. */
const MOST_NUMBERS = 2_400_000;
/** A chart with fewer steps shows nothing. */
const LEAST_STEPS = 4;

/** How many steps the series of each attempt may have. */
export function stepsFor(attempts: number): number {
  const steps = Math.floor(MOST_NUMBERS / (LINES.length * Math.max(1, attempts)));
  return steps < LEAST_STEPS ? 0 : steps;
}

/** Undefined if nothing was measured, or there is no room. */
export function usedOf(resources: Resources | undefined, mostSteps: number): Used | undefined {
  if (resources === undefined || mostSteps === 0) return undefined;
  const { from, stepS, series } = resources;
  const count = Math.max(0, ...LINES.map((line) => series[line]?.mean.length ?? 0));
  if (count === 0) return undefined;
  // Merges whole steps, as the record itself does.
  let together = 1;
  while (Math.ceil(count / together) > mostSteps) together *= 2;
  const lines: { [line in Line]?: Values } = {};
  for (const line of LINES) {
    const { [line]: found } = series;
    if (found === undefined) continue;
    // A resource that can run out is shown by its maximum, a rate by its mean.
    const isRate = line === 'taskCpu' || line === 'taskWritten';
    const values = inGroups(isRate ? found.mean : found.max, together, isRate ? mean : highest);
    lines[line] = { unit: found.unit, values };
  }
  return { from: Date.parse(from) / 1000, step: stepS * together, lines };
}

function inGroups(
  values: readonly (number | null)[],
  size: number,
  one: (group: readonly number[]) => number,
): readonly (number | null)[] {
  const groups: (number | null)[] = [];
  for (let at = 0; at < values.length; at += size) {
    const seen = values.slice(at, at + size).filter((value) => value !== null);
    groups.push(seen.length === 0 ? null : one(seen));
  }
  return groups;
}

function mean(group: readonly number[]): number {
  return Math.round(group.reduce((sum, value) => sum + value, 0) / group.length);
}

function highest(group: readonly number[]): number {
  return Math.max(...group);
}
