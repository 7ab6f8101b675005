// A text table that fits a width. Columns are as wide as their content, and lines that are too long are cut at the end.
// Pure.

import { showPath } from '../model/path.ts';

export interface Column {
  readonly title: string;
  readonly align: 'left' | 'right';
}

/**
 * The limit for a cell, so that a wide cell pushes no other column off the screen. The last column may use the rest.
 */
const WIDEST_CELL = 32;
/** A narrower cell would say nothing. */
const LEAST_CELL = 10;
const GAP = '  ';

/** The header and one line per row, each at most `width` characters wide. */
export function tableLines(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number,
): readonly string[] {
  const all = [
    columns.map(({ title }) => title),
    ...rows.map((cells) => cells.map((cell) => showPath(cell))),
  ];
  const natural = columns.map((_, at) => {
    const most = at === columns.length - 1 ? Infinity : WIDEST_CELL;
    return all.reduce((widest, cells) => Math.max(widest, Math.min(most, (cells[at] ?? '').length)), 0);
  });
  const widths = narrowed(natural, columns, width);
  return all.map((cells) => {
    const padded = columns.map(({ align }, at) => {
      const text = cut(cells[at] ?? '', widths[at] ?? 0);
      return align === 'left' ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0);
    });
    return cut(padded.join(GAP).trimEnd(), width);
  });
}

/** Shrinks the widest text columns until at least all titles fit. Numbers are never cut. */
function narrowed(natural: readonly number[], columns: readonly Column[], width: number): readonly number[] {
  const widths = [...natural];
  const last = columns.length - 1;
  const lastLeast = columns[last]?.align === 'left' ? columns[last].title.length : (natural[last] ?? 0);
  const others = natural.slice(0, -1).reduce((sum, one) => sum + one + GAP.length, 0);
  for (let over = others + lastLeast - width; over > 0; over -= 1) {
    let widest = -1;
    for (const [at, { align }] of columns.entries())
      if (at < last && align === 'left' && (widths[at] ?? 0) > (widths[widest] ?? LEAST_CELL)) widest = at;
    if (widest === -1) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}

/** Lines that fit a terminal that is redrawn: lines that have scrolled away cannot be redrawn. */
export function fitted(lines: readonly string[], width: number, height: number): readonly string[] {
  // The cursor needs the last row.
  const most = Math.max(1, height - 1);
  const all = lines.flatMap((line) => line.split('\n'));
  const more = all.length - most + 1;
  const kept = all.length <= most ? all : [...all.slice(0, most - 1), `and ${numberText(more)} more lines`];
  return kept.map((line) => cut(line, width));
}

/** `9,412` */
export function numberText(value: number): string {
  return value.toLocaleString('en-US');
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}
