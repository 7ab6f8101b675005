// Programs made at random, of the kinds that once got sets of two rounds called proven, against a model that knows which
// round each file is of. Some thousand of each kind, under fixed names and under names that are new each time.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  cutTaken,
  memberClosed,
  newCut,
  plan,
  roundLost,
  type CutStart,
} from '../../../src/model/checkpoint/cut.ts';
import { compileRotation } from '../../../src/model/checkpoint/rotation.ts';

const KINDS = [
  'plain',
  'each file twice in each round',
  'a file twice now and then',
  'a file twice in the first round only',
  'a watch that begins late',
  'a sidecar that dies',
] as const;
type Kind = (typeof KINDS)[number];

const ROUNDS = 14;
/** From the end of this round on the order may be believed. */
const TAUGHT = 3;

/** Of numbered names the program removes those before so many. */
const KEPT = 2;

/** What is chosen of a program; all times in ms. */
interface Program {
  readonly count: number;
  readonly insideMs: readonly number[];
  readonly betweenMs: number;
  /** Parts of 1: which closes come twice, and how much later. */
  readonly odd: readonly number[];
  /** When the watch begins or the sidecar dies, as a part of all the time. */
  readonly at: number;
  readonly rounds: number;
}

interface OneClose {
  readonly name: string;
  readonly round: number;
  readonly atMs: number;
  /** The file is closed once more in this round. */
  readonly isFirstOfTwo: boolean;
  /** The last of its round. */
  readonly isEnd: boolean;
}

const program: fc.Arbitrary<Program> = fc.record({
  count: fc.constantFrom(2, 2, 3),
  insideMs: fc.array(fc.constantFrom(1, 5, 40, 200, 900, 2100, 3000), { minLength: 3, maxLength: 3 }),
  betweenMs: fc.constantFrom(50, 400, 2000, 2500, 8000),
  odd: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 50, maxLength: 50 }),
  at: fc.double({ min: 0.05, max: 0.9, noNaN: true }),
  rounds: fc.constant(ROUNDS),
});

/** Pauses between rounds are the longer ones. */
const unhurried: fc.Arbitrary<Program> = program.map((one) => ({
  ...one,
  betweenMs: Math.max(one.betweenMs, ...one.insideMs),
}));

function closesOf(kind: Kind, { count, insideMs, betweenMs, odd, rounds }: Program): readonly OneClose[] {
  const names = ['a', 'b', 'c'].slice(0, count);
  const closes: OneClose[] = [];
  let atMs = 1000;
  for (let round = 1; round <= rounds; round += 1) {
    names.forEach((name, at) => {
      const chance = odd[(round * count + at) % odd.length] ?? 0;
      const isTwice =
        kind === 'each file twice in each round' ||
        (kind === 'a file twice now and then' && round > TAUGHT && chance < 0.1 && at < count - 1) ||
        (kind === 'a file twice in the first round only' && round === 1 && at === 0);
      atMs += insideMs[at] ?? 1;
      if (isTwice) closes.push({ name, round, atMs, isFirstOfTwo: true, isEnd: false });
      atMs += isTwice ? Math.round(1 + 200 * chance) : 0;
      closes.push({ name, round, atMs, isFirstOfTwo: false, isEnd: at === count - 1 });
    });
    atMs += betweenMs;
  }
  return closes;
}

interface Proven {
  readonly atMs: number;
  /** By file its newest close. */
  readonly closes: ReadonlyMap<string, OneClose>;
  readonly isWhole: boolean;
}

/** All sets that are called proven; a sidecar looks after each close, and when its timer says so. */
function provenSets(kind: Kind, isNumbered: boolean, one: Program): readonly Proven[] {
  const closes = closesOf(kind, one);
  const names = ['a', 'b', 'c'].slice(0, one.count);
  const isAlike = kind === 'each file twice in each round';
  const endMs = closes.at(-1)?.atMs ?? 0;
  const fromMs = kind === 'a watch that begins late' ? endMs * one.at : 0;
  let diesMs = kind === 'a sidecar that dies' ? endMs * one.at : Infinity;
  const rules = { settleMs: 2000, byLast: false, rotationOf: compileRotation(isNumbered ? 'ck.*' : 'x') };
  const known = (startsMidRound: boolean): CutStart => {
    const members = isNumbered ? [] : names;
    return { members, complete: !isNumbered, inUnits: false, startsMidRound };
  };
  let state = newCut(rules, known(false));
  const newest = new Map<string, OneClose>();
  const proven: Proven[] = [];
  const lookUntil = (untilMs: number, sinceMs: number): void => {
    for (let nowMs = sinceMs; nowMs < untilMs;) {
      const what = plan(state, { nowMs, sendMs: 5, tried: false });
      if (what.kind === 'covered') return;
      if (what.kind === 'wait') {
        nowMs = what.untilMs ?? Infinity;
        continue;
      }
      state = cutTaken(state, what.proof, nowMs);
      if (what.proof === 'instant') continue;
      const { round } = newest.get('a') ?? {};
      const isOneRound = names.every((name) => newest.get(name)?.round === round);
      // Only of rounds that are always the same can anybody know that a file is closed once more.
      const isUnfinished = isAlike && [...newest.values()].some(({ isFirstOfTwo }) => isFirstOfTwo);
      proven.push({ atMs: nowMs, closes: new Map(newest), isWhole: isOneRound && !isUnfinished });
    }
  };
  const pathOf = ({ name, round }: OneClose): string => (isNumbered ? `ck.${round}.${name}` : name);
  let isWatched = fromMs === 0;
  closes.forEach((close, at) => {
    const { atMs } = close;
    if (atMs < fromMs) return newest.set(close.name, close);
    // What a watch finds as it begins: src/sidecar/checkpoints/cutting.ts.
    if (!isWatched)
      for (const one of newest.values())
        state = memberClosed(roundLost(state), {
          path: pathOf(one),
          how: 'scan',
          atMs: fromMs,
          isLast: false,
        });
    isWatched = true;
    newest.set(close.name, close);
    if (atMs > diesMs) {
      diesMs = Infinity;
      state = newCut(rules, known(true));
    }
    const rotates = isNumbered && close.round > KEPT;
    state = memberClosed(state, { path: pathOf(close), how: 'close', atMs, isLast: false, rotates });
    lookUntil(closes[at + 1]?.atMs ?? atMs + 30_000, atMs);
  });
  return proven;
}

describe.each([
  ['fixed names', false],
  ['names that are new each time', true],
] as const)('with %s', (_, isNumbered) => {
  it.each(KINDS)('no set of two rounds, or of a part of one, is called proven: %s', (kind) => {
    fc.assert(
      fc.property(program, (one) => {
        expect(provenSets(kind, isNumbered, one).filter(({ isWhole }) => !isWhole)).toEqual([]);
      }),
      { numRuns: 2000 },
    );
  });

  it('each round of a plain program has a proven set as it ends, from the third on', () => {
    fc.assert(
      fc.property(unhurried, (one) => {
        const proven = new Set(provenSets('plain', isNumbered, one).map(({ atMs }) => atMs));
        const ends = closesOf('plain', one).filter(({ round, isEnd }) => round >= TAUGHT && isEnd);
        expect(ends.filter(({ atMs }) => !proven.has(atMs))).toEqual([]);
      }),
      { numRuns: 1000 },
    );
  });
});
