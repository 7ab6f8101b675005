// A table of text that fits a width: columns are as wide as what stands in them, and a line that is too long loses its
// end. Pure.

export interface Column {
  readonly title: string;
  readonly align: 'left' | 'right';
}

/** A cell that is wider pushes no other off the screen; the last may have all the rest. */
const WIDEST_CELL = 32;
const GAP = '  ';

/** The head and a line for each row, of at most `width` characters. */
export function tableLines(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number,
): readonly string[] {
  const all = [columns.map(({ title }) => title), ...rows];
  const widths = columns.map((_, at) => {
    const most = at === columns.length - 1 ? Infinity : WIDEST_CELL;
    return all.reduce((widest, cells) => Math.max(widest, Math.min(most, (cells[at] ?? '').length)), 0);
  });
  return all.map((cells) => {
    const padded = columns.map(({ align }, at) => {
      const text = cut(cells[at] ?? '', widths[at] ?? 0);
      return align === 'left' ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0);
    });
    return cut(padded.join(GAP).trimEnd(), width);
  });
}

/** `9,412` */
export function numberText(value: number): string {
  return value.toLocaleString('en-US');
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}
