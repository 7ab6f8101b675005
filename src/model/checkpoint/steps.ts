// Which files, or directories, whose names have numbers are one checkpoint: `ck.14.0` to `ck.14.3` are, and `ck.15.0` is
// of the next one. The number that varies slowest counts the checkpoints. Pure. Where that cannot be told, what may be
// one checkpoint counts as one: to take too much costs space, to cut one apart costs the checkpoint.

/** A file or directory that the star of a pattern names. */
export interface Unit {
  readonly name: string;
  /** The numbers that stand where the pattern has its star, as they are written. */
  readonly numbers: readonly string[];
  /** The name without them. */
  readonly shape: string;
  readonly mtimeNs: bigint;
}

/** What is written so long after what was written before it is another checkpoint. */
const APART_NS = 10n * 1_000_000_000n;

export interface Steps {
  /** The same for all units of one checkpoint, by the name of the unit. */
  readonly of: ReadonlyMap<string, string>;
  /** Units of which nobody can tell whether they are one checkpoint or several, the oldest first. */
  readonly untold: readonly Unit[];
}

/** Of all units of one pattern. */
export function stepsOf(units: Iterable<Unit>): Steps {
  const shapes = new Map<string, Unit[]>();
  for (const unit of units) shapes.set(unit.shape, [...(shapes.get(unit.shape) ?? []), unit]);
  const of = new Map<string, string>();
  const untold: Unit[] = [];
  for (const alike of shapes.values()) {
    const inOrder = alike.toSorted((a, b) => Number(a.mtimeNs - b.mtimeNs) || (a.name < b.name ? -1 : 1));
    const counts = countOf(inOrder);
    for (const unit of inOrder) of.set(unit.name, counts.step(unit));
    if (counts.untold) untold.push(...inOrder);
  }
  return { of, untold };
}

interface Count {
  readonly step: (unit: Unit) => string;
  readonly untold: boolean;
}

/** `units` differ only in their numbers, and stand in the order in which they were written. */
function countOf(units: readonly Unit[]): Count {
  const [first] = units;
  const places = [...(first?.numbers.keys() ?? [])];
  if (places.length === 0) return { step: ({ name }) => name, untold: false };
  const by = (chosen: readonly number[], untold = false): Count => ({
    step: ({ numbers }) => chosen.map((place) => numbers[place]).join(' '),
    untold,
  });
  if (places.length === 1) return by(places);
  const varying = places.filter((place) =>
    units.some((unit) => unit.numbers[place] !== first?.numbers[place]),
  );
  // One of those that are the same may be the step, and this one count its files.
  if (varying.length === 1) {
    const isApart = units.some(
      ({ mtimeNs }, at) => mtimeNs - (units[at - 1]?.mtimeNs ?? mtimeNs) >= APART_NS,
    );
    return isApart ? by(varying) : by(without(places, varying), units.length > 1);
  }
  // If the others never come again with another one, as in a date, each name is a checkpoint by itself.
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
