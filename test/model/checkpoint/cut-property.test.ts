// Tasks of many kinds against a model that knows which sets are whole: what a restore would take at any moment is
// neither mixed nor torn when there is a whole set that is younger than the bound.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  closesLost,
  cutGivenUp,
  cutTaken,
  memberClosed,
  newCut,
  plan,
  type CutState,
  type Proof,
} from '../../../src/model/checkpoint/cut.ts';
import type { Generation } from '../../../src/model/format/records.ts';
import { isMidRound } from '../../../src/model/checkpoint/rounds.ts';
import { restoreOrder } from '../../../src/model/checkpoint/restore-order.ts';
import { compileRotation } from '../../../src/model/checkpoint/rotation.ts';

const BOUND_MS = 10_000;
const SETTLE_MS = 2000;

/** One file written: open from `openMs` on, closed at `closeMs`. */
interface Write {
  readonly path: string;
  readonly openMs: number;
  readonly closeMs: number;
  /** The round that it belongs to. */
  readonly round: number;
  /** A death may have closed it. */
  readonly doubtful: boolean;
  /** How long the task had stopped before it, in the middle of a round. */
  readonly pauseMs: number;
}

interface Task {
  readonly pattern: string;
  readonly exact: readonly string[];
  readonly inUnits: boolean;
  /** True when these files, each with the round of its newest close and how often it was closed in it, are whole. */
  readonly isWhole: (files: ReadonlyMap<string, Stand>) => boolean;
  readonly writes: readonly Write[];
}

interface Stand {
  readonly round: number;
  readonly closes: number;
}

interface Kind {
  readonly name: string;
  readonly pattern: string;
  readonly exact?: readonly string[];
  readonly inUnits?: boolean;
  /** The files of one round, in order. */
  readonly filesOf: (round: number) => readonly string[];
  readonly isWhole: (
    files: ReadonlyMap<string, Stand>,
    filesOf: (round: number) => readonly string[],
  ) => boolean;
}

/** Every file that there is stands in the same round; if it was closed for the last time, nobody can know. */
const inOneRound = (files: ReadonlyMap<string, Stand>): boolean =>
  new Set([...files.values()].map(({ round }) => round)).size === 1;
/** Every file that there is stands at the end of the same round. */
const ofOneRound: Kind['isWhole'] = (files, filesOf) => {
  const rounds = [...files.values()].map(({ round }) => round);
  return (
    new Set(rounds).size === 1 &&
    [...files].every(
      ([path, { closes }]) => closes === filesOf(rounds[0] ?? 0).filter((one) => one === path).length,
    )
  );
};
/** Of every round of which there is a file there are all. */
const ofWholeRounds: Kind['isWhole'] = (files, filesOf) =>
  [...files.values()].every(({ round }) => filesOf(round).every((path) => files.has(path)));
const always: Kind['isWhole'] = () => true;

const KINDS: readonly Kind[] = [
  { name: 'one file of a glob', pattern: '*', filesOf: () => ['a'], isWhole: always },
  {
    name: 'two named files',
    pattern: 'x',
    exact: ['a', 'b'],
    filesOf: () => ['a', 'b'],
    isWhole: ofOneRound,
  },
  { name: 'two of a glob', pattern: '*', filesOf: () => ['a', 'b'], isWhole: ofOneRound },
  { name: 'three of a glob', pattern: '*', filesOf: () => ['a', 'b', 'c'], isWhole: ofOneRound },
  { name: 'five of a glob', pattern: '*', filesOf: () => ['a', 'b', 'c', 'd', 'e'], isWhole: ofOneRound },
  { name: 'one of them twice', pattern: '*', filesOf: () => ['a', 'a', 'b'], isWhole: ofOneRound },
  {
    name: 'one of two named files twice',
    pattern: 'x',
    exact: ['a', 'b'],
    filesOf: () => ['a', 'a', 'b'],
    isWhole: ofOneRound,
  },
  { name: 'numbered files that come again', pattern: 'r*', filesOf: () => ['r1', 'r2'], isWhole: ofOneRound },
  { name: 'alternating', pattern: '[ab]', filesOf: (n) => [n % 2 === 0 ? 'a' : 'b'], isWhole: always },
  { name: 'numbered', pattern: 'm.*', filesOf: (n) => [`m.${n}`], isWhole: always },
  {
    name: 'numbered groups',
    pattern: 'm.*',
    filesOf: (n) => [`m.${n}.a`, `m.${n}.b`],
    isWhole: ofWholeRounds,
  },
  {
    name: 'dated groups',
    pattern: 'm.*',
    filesOf: (n) => [`m.${n}-${n}.a`, `m.${n}-${n}.b`],
    isWhole: ofWholeRounds,
  },
  {
    name: 'a directory for each step',
    pattern: 'step-*/**',
    inUnits: true,
    filesOf: (n) => [`step-${n}/a`, `step-${n}/b`, `step-${n}/c`],
    isWhole: ofWholeRounds,
  },
];

/** Checkpoints of many files: the first round looks like several. */
const PARTS: readonly Kind[] = [['.x'], ['.x', '.y']].map((endings) => ({
  name: `parts with ${endings.length} files each, numbered`,
  pattern: 'r*',
  filesOf: (): readonly string[] => [1, 2, 3, 4, 5].flatMap((n) => endings.map((ending) => `r${n}${ending}`)),
  isWhole: (...set: Parameters<Kind['isWhole']>): boolean => ofOneRound(...set) && ofWholeRounds(...set),
}));

/** Programs that close a file more often than others do, in the order of the names. */
const IRREGULAR: readonly Kind[] = [
  ...[2, 3].map((times) => ({
    name: `each ${times} times`,
    pattern: 'x',
    exact: ['a', 'b'],
    filesOf: (): readonly string[] => ['a', 'b'].flatMap((path) => Array.from({ length: times }, () => path)),
    isWhole: ofOneRound,
  })),
  { name: 'two', pattern: 'x', exact: ['a', 'b'], filesOf: () => ['a', 'b'], isWhole: inOneRound },
  {
    name: 'three',
    pattern: 'x',
    exact: ['a', 'b', 'c'],
    filesOf: () => ['a', 'b', 'c'],
    isWhole: inOneRound,
  },
  {
    name: 'in any order',
    pattern: 'x',
    exact: ['a', 'b'],
    filesOf: (n) => ((n * n * 5) % 7 < 3 ? ['a', 'b'] : ['b', 'a']),
    isWhole: ofOneRound,
  },
  {
    name: 'a first round that is shorter',
    pattern: 'x',
    exact: ['a', 'b'],
    filesOf: (n) => (n === 0 ? ['a', 'b'] : ['a', 'a', 'b']),
    isWhole: ofOneRound,
  },
  {
    name: 'with the backup of each',
    pattern: 'x',
    exact: ['a', 'b', 'a.bak', 'b.bak'],
    filesOf: (n) => (n === 0 ? ['a', 'b'] : ['a.bak', 'a', 'b.bak', 'b']),
    isWhole: inOneRound,
  },
  {
    name: 'one that comes later',
    pattern: 'x',
    exact: ['a', 'b', 'c'],
    filesOf: (n) => (n < 3 ? ['a', 'b'] : ['a', 'b', 'c']),
    isWhole: inOneRound,
  },
  {
    name: 'one that comes now and then',
    pattern: 'x',
    exact: ['a', 'b', 'c'],
    filesOf: (n) => (n % 4 === 3 ? ['a', 'b', 'c'] : ['a', 'b']),
    isWhole: inOneRound,
  },
];

interface Times {
  /** Between the closes of one round. */
  readonly gapsMs: readonly number[];
  /** Between rounds. */
  readonly restsMs: readonly number[];
  /** In the middle of a round. */
  readonly pausesMs: readonly number[];
  /** No pause comes before so many files. */
  readonly calm?: number;
}

const taskOf = ({ gapsMs, restsMs, pausesMs, calm = 0 }: Times, kinds = KINDS): fc.Arbitrary<Task> =>
  fc
    .record({
      kind: fc.constantFrom(...kinds),
      gapMs: fc.constantFrom(...gapsMs),
      restMs: fc.constantFrom(...restsMs),
      writeMs: fc.constantFrom(1, 4, 50),
      rounds: fc.integer({ min: 1, max: 14 }),
      pauses: fc.array(
        fc.record({ at: fc.integer({ min: calm, max: 40 }), forMs: fc.constantFrom(...pausesMs) }),
        { maxLength: 3 },
      ),
      doubtful: fc.array(fc.nat(40), { maxLength: 4 }),
    })
    .map(({ kind, gapMs, restMs, writeMs, rounds, pauses, doubtful }): Task => {
      const writes: Write[] = [];
      let nowMs = 1000;
      for (let round = 0; round < rounds; round += 1) {
        kind.filesOf(round).forEach((path, at) => {
          if (at > 0) nowMs += gapMs;
          const pause = pauses.find((one) => one.at === writes.length)?.forMs;
          const pauseMs = at > 0 ? (pause ?? 0) : 0;
          nowMs += pauseMs;
          const closeMs = nowMs + writeMs;
          const isDoubtful = doubtful.includes(writes.length);
          writes.push({ path, openMs: nowMs, closeMs, round, doubtful: isDoubtful, pauseMs });
          nowMs = closeMs;
        });
        nowMs += restMs;
      }
      const { pattern, exact = [], inUnits = false } = kind;
      return { pattern, exact, inUnits, writes, isWhole: (files) => kind.isWhole(files, kind.filesOf) };
    });

const task = taskOf({
  gapsMs: [5, 200, 900, 3000, 4000],
  restsMs: [10, 400, 1000, 2500, 15_000],
  pausesMs: [2500, 6000, 9000, 14_000, 60_000],
});

interface Cut {
  readonly atMs: number;
  readonly proof: Proof;
  readonly isWhole: boolean;
  readonly doubtful: boolean;
  /** In the middle of a known round. */
  readonly isMid: boolean;
}

interface Run {
  readonly cuts: readonly Cut[];
  /** For how long a close has waited for the commit of a set at most; but for pauses of a known round. */
  readonly longestWaitMs: number;
}

/** How often in a row a cut of an instant does not hold, and for how long each of them is waited for. */
interface Losses {
  readonly times: number;
  readonly forMs: number;
}

/** From when on the sidecar listens, and when it loses events. */
interface Sight {
  readonly fromMs?: number;
  readonly lostMs?: number;
}

/** Some of its closes come twice. */
const doubled = (one: Task, at: ReadonlySet<number>, gapMs: number): Task => ({
  ...one,
  writes: one.writes.flatMap((write, n) => {
    const { closeMs } = write;
    if (!at.has(n)) return [write];
    const next = one.writes[n + 1]?.openMs ?? Infinity;
    const againMs = Math.min(closeMs + gapMs, next - 1);
    return againMs <= closeMs
      ? [write]
      : [write, { ...write, openMs: closeMs, closeMs: againMs, pauseMs: 0 }];
  }),
});

/** The task, and a sidecar that looks after each close and when its one timer says so. `sendMs` is what a push takes. */
function watched(
  { writes, pattern, exact, inUnits, isWhole }: Task,
  sendMs: number,
  { times = 0, forMs = 0, fromMs = 0, lostMs = Infinity }: Partial<Losses> & Sight = {},
): Run {
  const rotationOf = compileRotation(pattern);
  let state: CutState = newCut(
    { settleMs: SETTLE_MS, byLast: false, rotationOf },
    { members: exact, complete: exact.length > 0, inUnits, startsMidRound: fromMs > 0 },
  );
  const files = new Map<string, Stand & { readonly closeMs: number; readonly doubtful: boolean }>();
  const cuts: Cut[] = [];
  let longestWaitMs = 0;
  let busyUntilMs = 0;
  let lost = 0;
  let isLost = false;
  const isOpen = (nowMs: number): boolean => writes.some((one) => one.openMs <= nowMs && nowMs < one.closeMs);

  const pausedBetween = (fromMs: number, untilMs: number): number =>
    writes.reduce((sum, { openMs, pauseMs }) => {
      const overlapMs = Math.min(openMs, untilMs) - Math.max(openMs - pauseMs, fromMs);
      return sum + Math.max(0, overlapMs);
    }, 0);

  /** Until when nothing has to be done. */
  const look = (nowMs: number): number => {
    if (nowMs < busyUntilMs) return busyUntilMs;
    let what = plan(state, { nowMs, sendMs, tried: false });
    if (what.kind === 'cut' && what.proof !== 'instant' && isOpen(nowMs))
      what = plan(state, { nowMs, sendMs, tried: true });
    if (what.kind === 'covered') return Infinity;
    if (what.kind !== 'cut') return what.untilMs ?? Infinity;
    if (isOpen(nowMs)) return nowMs + 250;
    const { proof, without } = what;
    const before = state;
    if (proof === 'instant' && lost < times) {
      lost += 1;
      state = cutGivenUp(cutTaken(state, proof, nowMs), state);
      busyUntilMs = nowMs + forMs;
      return busyUntilMs;
    }
    lost = 0;
    const stands = new Map([...files].filter(([path]) => !without.has(rotationOf(path)?.unit ?? path)));
    const doubtful = [...stands.values()].some((stand) => stand.doubtful && nowMs - stand.closeMs < BOUND_MS);
    state = cutTaken(state, proof, nowMs);
    const isMid = isMidRound(before.rounds);
    cuts.push({ atMs: nowMs, proof, isWhole: isWhole(stands), doubtful, isMid });
    busyUntilMs = nowMs + Math.max(1, sendMs);
    // A proven set that is younger than the bound is not superseded: then no tries were made before.
    const sinceMs = Math.max(before.staleSinceMs ?? nowMs, before.provenCutMs + times * forMs);
    const pausedMs = before.rounds.phase === 'known' ? pausedBetween(sinceMs, nowMs) : 0;
    longestWaitMs = Math.max(longestWaitMs, nowMs + sendMs - sinceMs - pausedMs);
    return busyUntilMs;
  };

  const endMs = (writes.at(-1)?.closeMs ?? 0) + 30_000;
  const closes = [...writes];
  let wakeMs = Infinity;
  for (let nowMs = 0; nowMs < endMs;) {
    const [next] = closes;
    nowMs = Math.min(next?.closeMs ?? Infinity, wakeMs, endMs);
    if (next !== undefined && next.closeMs <= nowMs) {
      closes.shift();
      const { path, round, doubtful } = next;
      const before = files.get(path);
      files.set(path, {
        round,
        closes: before?.round === round ? before.closes + 1 : 1,
        closeMs: nowMs,
        doubtful,
      });
      if (nowMs > fromMs) state = memberClosed(state, { path, how: 'close', atMs: nowMs, isLast: false });
      if (nowMs > lostMs && !isLost) {
        isLost = true;
        state = closesLost(state, nowMs);
      }
    }
    wakeMs = look(nowMs);
    if (wakeMs <= nowMs) throw new Error(`the timer is set for ${wakeMs}, and it is ${nowMs} already`);
  }
  return { cuts, longestWaitMs };
}

const recorded = (cuts: readonly Cut[]): readonly Generation[] =>
  cuts.map(({ atMs, proof, doubtful }, at) => ({
    attempt: 1,
    generation: at + 1,
    at: new Date(atMs).toISOString(),
    members: [],
    companions: [],
    ...(proof === 'instant' ? { instant: true } : {}),
    ...(doubtful ? { unproven: true } : {}),
  }));

describe('whatever a task writes', () => {
  const isMixedProven = ({ proof, isWhole }: Cut): boolean => proof !== 'instant' && !isWhole;

  it('no proven set is mixed or torn', () => {
    fc.assert(
      fc.property(task, fc.constantFrom(0, 30, 3000), (one, sendMs) => {
        expect(watched(one, sendMs).cuts.filter(isMixedProven)).toEqual([]);
      }),
      { numRuns: 3000 },
    );
  });

  it('no proven set lacks numbered parts of a checkpoint', () => {
    const times = { gapsMs: [5, 900, 3000], restsMs: [10, 2500, 15_000], pausesMs: [2500, 14_000] };
    fc.assert(
      fc.property(taskOf(times, PARTS), (one) => {
        expect(watched(one, 0).cuts.filter(isMixedProven)).toEqual([]);
      }),
      { numRuns: 1000 },
    );
  });

  describe('and however often it closes a file', () => {
    const times = { gapsMs: [5, 200, 900, 3000], restsMs: [10, 400, 2500, 15_000], pausesMs: [2500, 14_000] };
    const irregular = taskOf(times, IRREGULAR);
    // Where both the order and the closes vary, anything may look like anything.
    const ordered = taskOf(
      times,
      IRREGULAR.filter(({ name }) => name !== 'in any order'),
    );
    const twice = fc.uniqueArray(fc.nat(40), { maxLength: 6 });

    it('no proven set is mixed', () => {
      fc.assert(
        fc.property(ordered, twice, fc.constantFrom(1, 30, 200), (one, at, gapMs) => {
          const { cuts } = watched(doubled({ ...one, isWhole: inOneRound }, new Set(at), gapMs), 0);
          expect(cuts.filter(isMixedProven)).toEqual([]);
        }),
        { numRuns: 3000 },
      );
    });

    it('none is taken before the last close of a file that is always closed as often', () => {
      fc.assert(
        fc.property(irregular, (one) => {
          expect(watched(one, 0).cuts.filter(isMixedProven)).toEqual([]);
        }),
        { numRuns: 2000 },
      );
    });

    it('none is mixed if nobody saw where it began, or events were lost', () => {
      const plain = taskOf(
        times,
        KINDS.filter(({ exact }) => exact !== undefined),
      );
      const sight = fc.record({ fromMs: fc.integer({ min: 1, max: 60_000 }), lostMs: fc.nat(60_000) });
      fc.assert(
        fc.property(plain, sight, fc.boolean(), (one, { fromMs, lostMs }, isLate) => {
          expect(watched(one, 0, isLate ? { fromMs } : { lostMs }).cuts.filter(isMixedProven)).toEqual([]);
        }),
        { numRuns: 3000 },
      );
    });
  });

  it('each round from the third on has a proven set if the order is always the same, with longer pauses between', () => {
    const plain = taskOf(
      { gapsMs: [5, 200, 900, 3000], restsMs: [3000, 15_000], pausesMs: [1] },
      KINDS.filter(({ name }) => /named files$|of a glob$/.test(name) && !name.startsWith('one')),
    );
    fc.assert(
      fc.property(plain, (one) => {
        const ends = new Map(one.writes.map(({ round, closeMs }) => [round, closeMs]));
        const cuts = new Set(
          watched(one, 0).cuts.flatMap(({ proof, atMs }) => (proof === 'round' ? [atMs] : [])),
        );
        expect([...ends].filter(([round, atMs]) => round >= 2 && !cuts.has(atMs))).toEqual([]);
      }),
      { numRuns: 1000 },
    );
  });

  it('what was closed is in a committed set within the bound, also when a cut of an instant is tried for some time', () => {
    fc.assert(
      fc.property(task, fc.constantFrom(0, 30, 3000), fc.nat(8), (one, sendMs, times) => {
        const { longestWaitMs } = watched(one, sendMs, { times, forMs: 300 });
        expect(longestWaitMs).toBeLessThanOrEqual(BOUND_MS + 500);
      }),
      { numRuns: 1000 },
    );
  });

  describe('and stops for some time in the middle of rounds that are known, the files of which it writes together', () => {
    const together = { gapsMs: [5, 200, 900], restsMs: [2500, 15_000], calm: 20 };
    const isMixed = ({ isMid, isWhole }: Cut): boolean => isMid && !isWhole;
    const stopsFor = (...pausesMs: readonly number[]): fc.Arbitrary<Task> =>
      taskOf({ ...together, pausesMs });

    it('no cut of two rounds is taken meanwhile', () => {
      fc.assert(
        fc.property(stopsFor(2500, 6000, 9000, 14_000, 60_000), (one) => {
          const stops = one.writes.map(({ openMs, pauseMs }) => [openMs - pauseMs, openMs] as const);
          const isIn = ({ atMs }: Cut): boolean =>
            stops.some(([from, to]) => atMs > from + SETTLE_MS && atMs < to);
          expect(watched(one, 0).cuts.filter((cut) => isMixed(cut) && isIn(cut))).toEqual([]);
        }),
        { numRuns: 2000 },
      );
    });

    it('nor when it goes on after a time as long as the bound', () => {
      fc.assert(
        fc.property(stopsFor(14_000, 60_000, 3_600_000), fc.constantFrom(0, 30), (one, sendMs) => {
          expect(watched(one, sendMs).cuts.filter(isMixed)).toEqual([]);
        }),
        { numRuns: 2000 },
      );
    });
  });

  it('a restore takes an instant only when no proven set is younger than the bound, and a doubtful one last', () => {
    fc.assert(
      fc.property(task, fc.nat(60), (one, deathAt) => {
        const { cuts } = watched(one, 0);
        const made = cuts.slice(0, deathAt);
        const [first] = restoreOrder(recorded(made));
        if (first === undefined) return;
        const taken = made[first.generation - 1];
        const clean = made.filter(({ doubtful }) => !doubtful);
        if (clean.length > 0) expect(taken?.doubtful).toBe(false);
        if (taken?.proof !== 'instant' || taken.doubtful) return;
        const young = clean.filter(({ proof, atMs }) => proof !== 'instant' && atMs > taken.atMs - BOUND_MS);
        expect(young).toEqual([]);
      }),
      { numRuns: 1000 },
    );
  });

  it('a cut that did not hold is made good within the bound', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 20_000 }), (lostMs) => {
        const rules = { settleMs: SETTLE_MS, byLast: false, rotationOf: compileRotation('*') };
        const open = newCut(rules, { members: [], complete: false, inUnits: false, startsMidRound: false });
        const before = memberClosed(open, { path: 'a', how: 'close', atMs: 0, isLast: false });
        const state = cutGivenUp(cutTaken(before, 'round', SETTLE_MS), before);
        const what = plan(state, { nowMs: lostMs, sendMs: 0, tried: true });
        expect(what.kind === 'cut' || (what.kind === 'wait' && (what.untilMs ?? Infinity) <= BOUND_MS)).toBe(
          true,
        );
      }),
    );
  });
});
