// A series of numbers as one line of blocks, from zero to its highest. Pure.

const BLOCKS = '▁▂▃▄▅▆▇█';

/** A space where nothing was seen. */
export function sparkline(values: readonly (number | undefined)[]): string {
  const highest = Math.max(0, ...values.map((value) => value ?? 0));
  return values
    .map((value) => {
      if (value === undefined) return ' ';
      const at = highest === 0 ? 0 : Math.round((value / highest) * (BLOCKS.length - 1));
      return BLOCKS[at] ?? '';
    })
    .join('');
}
