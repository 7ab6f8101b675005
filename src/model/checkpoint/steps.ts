// Which files, or directories, with numbers in their names form one checkpoint: `ck.14.0` to `ck.14.3` do, and
// `ck.15.0` belongs to the next. The number that varies slowest counts the checkpoints. Pure. In doubt, files count as
// one checkpoint: taking too many costs space, splitting a checkpoint loses it.

/** A file or directory that a pattern's star names. */
export interface Unit {
  readonly name: string;
  /** The numbers at the pattern's star, as written. */
  readonly numbers: readonly string[];
  /** The name without those numbers. */
  readonly shape: string;
  readonly mtimeNs: bigint;
}

/** A file written this long after the previous one belongs to another checkpoint. */
const APART_NS = 10n * 1_000_000_000n;

export interface Steps {
  /** From the name of a unit to its checkpoint: equal for all units of one checkpoint. */
  readonly of: ReadonlyMap<string, string>;
  /** Units that may be one checkpoint or several, oldest first. */
  readonly ambiguous: readonly Unit[];
}

/** For all units of one pattern. */
export function stepsOf(units: Iterable<Unit>): Steps {
  const shapes = new Map<string, Unit[]>();
  for (const unit of units) shapes.set(unit.shape, [...(shapes.get(unit.shape) ?? []), unit]);
  const of = new Map<string, string>();
  const ambiguous: Unit[] = [];
  for (const alike of shapes.values()) {
    const inOrder = alike.toSorted((a, b) => Number(a.mtimeNs - b.mtimeNs) || (a.name < b.name ? -1 : 1));
    const counts = countOf(inOrder);
    for (const unit of inOrder) of.set(unit.name, counts.step(unit));
    if (counts.ambiguous) ambiguous.push(...inOrder);
  }
  return { of, ambiguous };
}

interface Count {
  readonly step: (unit: Unit) => string;
  readonly ambiguous: boolean;
}

/** `units` differ only in their numbers, and are in the order in which they were written. */
function countOf(units: readonly Unit[]): Count {
  const [first] = units;
  const places = [...(first?.numbers.keys() ?? [])];
  if (places.length === 0) return { step: ({ name }) => name, ambiguous: false };
  const by = (chosen: readonly number[], ambiguous = false): Count => ({
    step: ({ numbers }) => chosen.map((place) => numbers[place]).join(' '),
    ambiguous,
  });
  if (places.length === 1) return by(places);
  const varying = places.filter((place) =>
    units.some((unit) => unit.numbers[place] !== first?.numbers[place]),
  );
  // One of the constant numbers may be the step, and this one may count its files.
  if (varying.length === 1) {
    const isApart = units.some(
      ({ mtimeNs }, at) => mtimeNs - (units[at - 1]?.mtimeNs ?? mtimeNs) >= APART_NS,
    );
    return isApart ? by(varying) : by(without(places, varying), units.length > 1);
  }
  // If the other numbers never repeat with another value here, as in a date, each name is a checkpoint by itself.
  const repeating = varying.filter((place) => comesAgain(units, place, without(varying, [place])));
  const changes = (place: number): number =>
    units.filter((unit, at) => at > 0 && unit.numbers[place] !== units[at - 1]?.numbers[place]).length;
  const [slowest] = repeating.toSorted((a, b) => changes(a) - changes(b) || a - b);
  return by(slowest === undefined ? places : [slowest]);
}

/** True if two units have the same `others`, and different numbers at `place`. */
function comesAgain(units: readonly Unit[], place: number, others: readonly number[]): boolean {
  const seen = new Map<string, string | undefined>();
  return units.some(({ numbers }) => {
    const rest = others.map((other) => numbers[other]).join(' ');
    const isAgain = seen.has(rest) && seen.get(rest) !== numbers[place];
    seen.set(rest, numbers[place]);
    return isAgain;
  });
}

function without(places: readonly number[], some: readonly number[]): readonly number[] {
  return places.filter((place) => !some.includes(place));
}
