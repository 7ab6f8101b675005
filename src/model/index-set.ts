// Sets of array indices as schedulers write them: `3,17-19,40-60:2`. They are kept as ranges and never expanded: an
// array may have millions. Pure.

/** From `first` to `last`, both included, in steps of `step`. */
export interface IndexRange {
  readonly first: number;
  readonly last: number;
  readonly step: number;
}

/** Ranges in ascending order of their first index; two may overlap. */
export interface IndexSet {
  readonly ranges: readonly IndexRange[];
}

/** No engine allows a larger index. */
const LARGEST = 2 ** 31 - 1;
/** The message for a text that is not a set, and what to write instead. */
export const NO_INDEX_SET = {
  is: `not a set of indices (0 to ${LARGEST}, each range upwards)`,
  example: '0-99 or 3,17-19,40-60:2',
} as const;

/**
 * The indices of `3,17-19,40-60:2`. Slurm's `%` suffix (how many may run at once) says nothing about the set and is
 * ignored. Undefined if the text is not a set.
 */
export function parseIndexSet(text: string): IndexSet | undefined {
  const ranges: IndexRange[] = [];
  for (const part of text.replace(/%\d+$/, '').split(',')) {
    const match = /^(\d{1,10})(?:-(\d{1,10})(?::(\d{1,10}))?)?$/.exec(part.trim());
    if (match === null) return undefined;
    const first = Number(match[1]);
    const last = Number(match[2] ?? first);
    const step = Number(match[3] ?? 1);
    if (last < first || step === 0 || last > LARGEST) return undefined;
    ranges.push({ first, last: last - ((last - first) % step), step });
  }
  return { ranges: ranges.toSorted((a, b) => a.first - b.first) };
}

export function hasIndex({ ranges }: IndexSet, index: number): boolean {
  return ranges.some(
    ({ first, last, step }) => index >= first && index <= last && (index - first) % step === 0,
  );
}

/** Each index once, ascending. */
export function* indicesOf({ ranges }: IndexSet): Generator<number> {
  const [only] = ranges;
  if (only !== undefined && ranges.length === 1) {
    for (let index = only.first; index <= only.last; index += only.step) yield index;
    return;
  }
  const next = ranges.map(({ first }) => first);
  for (;;) {
    const least = Math.min(...next);
    if (least === Infinity) return;
    yield least;
    for (const [at, { last, step }] of ranges.entries()) {
      if (next[at] !== least) continue;
      next[at] = least + step > last ? Infinity : least + step;
    }
  }
}

/** The most indices that the set can have: an index in several ranges counts once for each range. */
function mostIndices({ ranges }: IndexSet): number {
  return ranges.reduce((sum, { first, last, step }) => sum + Math.floor((last - first) / step) + 1, 0);
}

/** The same as {@link indicesOf}, as an array of 4 bytes for each index. */
export function indexArray(set: IndexSet): Uint32Array {
  const all = new Uint32Array(mostIndices(set));
  let size = 0;
  for (const index of indicesOf(set)) all[size++] = index;
  return all.subarray(0, size);
}

/** More than a machine can run in a year. This many waiting indices take 40 MB. */
export const MOST_INDICES = 10_000_000;

/** More than an array can have. */
export function hasTooMany(set: IndexSet): boolean {
  return mostIndices(set) > MOST_INDICES;
}

/** The number that an index's text stands for; undefined for `a7` and `007`, which no engine uses. */
export function numberOfIndex(index: string): number | undefined {
  return /^(0|[1-9]\d{0,9})$/.test(index) ? Number(index) : undefined;
}

/** Numbers first, as numbers; then names. */
export function compareIndices(a: string, b: string): number {
  const [left, right] = [numberOfIndex(a), numberOfIndex(b)];
  if (left !== undefined && right !== undefined) return left - right;
  if (left !== undefined) return -1;
  if (right !== undefined) return 1;
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * The ranges that hold exactly these ascending numbers. Three or more at even distances, or two neighbours, form one
 * range.
 */
export function* rangesOf(ascending: Iterable<number>): Generator<IndexRange> {
  let run: { first: number; last: number; step: number } | undefined;
  for (const index of ascending) {
    if (run === undefined) run = { first: index, last: index, step: 0 };
    else if (run.step === 0 || index - run.last === run.step) {
      run.step = index - run.last;
      run.last = index;
    } else if (run.step > 1 && run.last - run.first === run.step) {
      // Two distant numbers form no range: the second may begin a better one.
      yield { first: run.first, last: run.first, step: 1 };
      run = { first: run.last, last: index, step: index - run.last };
    } else {
      yield run;
      run = { first: index, last: index, step: 0 };
    }
  }
  if (run === undefined) return;
  if (run.step > 1 && run.last - run.first === run.step) {
    yield { first: run.first, last: run.first, step: 1 };
    yield { first: run.last, last: run.last, step: 1 };
  } else yield { ...run, step: Math.max(1, run.step) };
}

/** The forms of an index list: for `sbatch --array`, `bsub -J 'name[...]'` and `qsub -t`, or one index a line. */
export const INDEX_FORMATS = ['slurm', 'lsf', 'torque', 'lines'] as const;
export type IndexFormat = (typeof INDEX_FORMATS)[number];

/** The ascending numbers in the form that an engine reads. */
export function formatIndices(ascending: Iterable<number>, format: IndexFormat): string {
  if (format === 'lines') return [...ascending].join('\n');
  return [...rangesOf(ascending)].map((range) => rangeText(range, format)).join(',');
}

function rangeText({ first, last, step }: IndexRange, format: IndexFormat): string {
  if (first === last) return String(first);
  if (step === 1) return `${first}-${last}`;
  // Torque's `-t` has no steps.
  if (format === 'torque') return [...indicesOf({ ranges: [{ first, last, step }] })].join(',');
  return `${first}-${last}:${step}`;
}
