// How findings look: a line for each with its mend below, or JSON for programs. Pure.
import { type Finding, type Level, LEVELS } from '../../doctor/finding.ts';
import { safeJson, showPath } from '../../model/path.ts';
import { plural } from '../../model/units.ts';
import type { Colour, Output } from '../output.ts';

const COLOURS: Readonly<Record<Level, Colour>> = { ok: 'green', warn: 'yellow', fail: 'red' };

/** `OK   zstd: ...`, and `     try: ...` where there is something to mend. */
export function textOf({ check, level, says, mend }: Finding, paint: Output['paint']): string {
  const word = paint(COLOURS[level], level.toUpperCase().padEnd(4));
  const line = `${word} ${check}: ${showPath(says)}\n`;
  return mend === undefined ? line : `${line}     try: ${showPath(mend)}\n`;
}

/** `17 ok, 1 warning, 0 failures` */
export function summaryOf(findings: readonly Finding[]): string {
  const [good = 0, warnings = 0, failures = 0] = LEVELS.map((level) => countOf(findings, level));
  return `${good} ok, ${plural(warnings, 'warning')}, ${plural(failures, 'failure')}\n`;
}

export function jsonOf(findings: readonly Finding[]): string {
  return `${safeJson(JSON.stringify({ ok: !hasFailed(findings), findings }, undefined, 2))}\n`;
}

export function hasFailed(findings: readonly Finding[]): boolean {
  return countOf(findings, 'fail') > 0;
}

function countOf(findings: readonly Finding[], level: Level): number {
  return findings.filter((finding) => finding.level === level).length;
}
