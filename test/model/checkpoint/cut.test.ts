import { describe, expect, it } from 'vitest';
import {
  closesLost,
  cutGivenUp,
  cutTaken,
  isOverdue,
  memberClosed,
  newCut,
  plan,
  programSaid,
  worthAtEnd,
  type CutState,
  type CutStart,
  type MemberClose,
  type Plan,
} from '../../../src/model/checkpoint/cut.ts';
import { compileRotation } from '../../../src/model/checkpoint/rotation.ts';

const settleMs = 2000;

interface Setting extends Partial<CutStart> {
  readonly pattern?: string;
  readonly byLast?: boolean;
}

function opened({ pattern = '*.chk', byLast = false, ...known }: Setting = {}): CutState {
  return newCut(
    { settleMs, byLast, rotationOf: compileRotation(pattern) },
    { members: [], complete: false, inUnits: false, startsMidRound: false, ...known },
  );
}

const exact = (...members: readonly string[]): CutState => opened({ pattern: 'x', members, complete: true });

function closed(state: CutState, path: string, atMs: number, more: Partial<MemberClose> = {}): CutState {
  return memberClosed(state, { path, how: 'close', atMs, isLast: path.endsWith('last'), ...more });
}

/** Three rounds of a and b until `untilMs`, all in sets: from now on the order is known. */
function known(untilMs: number): CutState {
  let state = exact('a', 'b');
  for (const at of [5, 3, 1]) {
    state = closed(closed(state, 'a', untilMs - at), 'b', untilMs - at + 1);
    state = cutTaken(state, at === 1 ? 'round' : 'instant', untilMs - at + 1);
  }
  return state;
}

const planned = (state: CutState, nowMs: number, sendMs = 0, tried = false): Plan =>
  plan(state, { nowMs, sendMs, tried });

/** `round`, `instant`, ..., or until when it waits. */
function proof(state: CutState, nowMs: number, sendMs = 0): string {
  const what = planned(state, nowMs, sendMs);
  if (what.kind === 'cut') return what.proof;
  return what.kind === 'covered' ? 'covered' : `${what.kind} ${what.untilMs}`;
}

describe('a set of checkpoint files', () => {
  it('is one file, if that is all there is: each close is a whole set', () => {
    const state = closed(exact('a'), 'a', 1);
    expect(proof(state, 1)).toBe('single');
    const taken = cutTaken(state, 'single', 1);
    expect(proof(taken, 1)).toBe('covered');
    expect(proof(cutGivenUp(taken, state), 1)).toBe('single');
  });

  it('is not proven by closes that were read together, if the files were not written together', () => {
    const readAtOnce = (apartMs: number): CutState =>
      closed(closed(known(10), 'a', 1000, { writtenMs: 1000 - apartMs }), 'b', 1000, { writtenMs: 1000 });
    expect(proof(readAtOnce(90), 1000)).toBe('round');
    expect(proof(readAtOnce(110), 1000)).toBe('wait 10010');
  });

  it('is not proven like rounds in which a close was only read late', () => {
    let state = exact('a', 'b');
    // From the first file of each round: when the second was written and read.
    for (const [startMs, writtenMs, readMs] of [
      [1000, 1, 1],
      [1800, 1, 400],
      [2600, 220, 220],
    ] as const) {
      state = closed(state, 'a', startMs, { writtenMs: startMs });
      state = closed(state, 'b', startMs + readMs, { writtenMs: startMs + writtenMs });
    }
    expect(proof(state, 3000)).toBe('wait 8000');
  });

  it('is proven at the end of a round whose order is known', () => {
    const half = closed(known(10), 'a', 1000);
    expect(proof(half, 5000)).toBe('wait 10010');
    expect(proof(closed(half, 'b', 1050), 1050)).toBe('round');
  });

  it('is taken as it is as soon as all files were closed, while no order is known', () => {
    const half = closed(exact('a', 'b'), 'a', 1);
    expect(proof(half, 5000)).toBe('wait 7001');
    expect(proof(closed(half, 'b', 2), 2)).toBe('instant');
  });

  it('is taken as it is after a pause, while others may follow that nobody knows yet; a pause proves nothing', () => {
    const state = closed(opened(), 'a.chk', 1000);
    expect(proof(state, 2999)).toBe('wait 3000');
    expect(proof(state, 3000)).toBe('instant');
  });

  it('is complete only by its last file when one is named', () => {
    const byLast = opened({ byLast: true });
    const state = closed(closed(byLast, 'a', 1), 'last', 2);
    expect(proof(state, 2)).toBe('named');
    // The next round has begun: the moment has passed.
    const late = closed(state, 'a', 3);
    expect([proof(late, 7000), late.afterLast]).toEqual(['wait 7001', 'a']);
    // What a walk finds has no order: it may be of the next round, and the last one of the round before.
    expect(proof(closed(state, 'b', 3, { how: 'scan' }), 3)).toMatch(/^wait/);
    const found = closed(closed(byLast, 'a', 1, { how: 'scan' }), 'last', 1, { how: 'scan' });
    expect(proof(found, 1)).toMatch(/^wait/);
    expect(proof(closed(found, 'last', 2), 2)).toBe('named');
  });

  it('names the file that comes after the last one in the same directory', () => {
    const state = closed(opened({ byLast: true, pattern: '*/**', inUnits: true }), '1/last', 1);
    const next = closed(cutTaken(state, 'named', 1), '2/U', 2);
    expect(next.afterLast).toBeUndefined();
    expect(closed(next, '1/props', 3).afterLast).toBe('1/props');
    // A scan of a new directory below it has found the last file before the closes of the others were reported.
    const found = closed(next, '2/last', 3, { how: 'scan' });
    expect(closed(found, '2/p', 3).afterLast).toBeUndefined();
    expect(closed(closed(found, '2/last', 4), '2/p', 5).afterLast).toBe('2/p');
  });

  it('holds the directory that its last file has ended, and not the next one, which may have begun by then', () => {
    const state = closed(opened({ byLast: true, pattern: '*/**', inUnits: true }), '1/last', 1);
    expect(planned(state, 1)).toEqual({ kind: 'cut', proof: 'named', without: new Set() });
    const begun = closed(state, '2/U', 2);
    expect(begun.afterLast).toBeUndefined();
    expect(planned(begun, 2)).toEqual({ kind: 'cut', proof: 'named', without: new Set(['2']) });
    // What the cut leaves out waits for its own.
    expect(cutTaken(begun, 'named', 2).staleSinceMs).toBe(2);
    expect(proof(cutTaken(begun, 'named', 2), 3)).toMatch(/^wait/);
  });

  it('is complete when the program says so, unless a known round says otherwise', () => {
    expect(proof(programSaid(closed(opened(), 'a.chk', 1)), 1)).toBe('said');
    expect(proof(programSaid(closed(known(10), 'a', 11)), 11)).toBe('wait 10010');
    expect(proof(closed(programSaid(closed(opened(), 'a.chk', 1)), 'b.chk', 2), 2)).toBe('wait 2002');
  });

  it('is not proven by rounds after lost events', () => {
    const lost = closesLost(closed(known(10), 'a', 11), 12);
    const next = closed(closed(closed(lost, 'b', 13), 'a', 14), 'b', 15);
    expect(proof(next, 15)).toBe('wait 10010');
  });

  it('whose files did not hold is tried again as it was, if nothing was closed since', () => {
    const whole = closed(closed(known(10), 'a', 11), 'b', 12);
    expect(proof(cutGivenUp(cutTaken(whole, 'round', 12), whole), 13)).toBe('round');
  });
});

describe('the bound', () => {
  const half = closed(exact('a', 'b'), 'a', 1000);

  it('makes a cut of an instant three seconds before no set has been complete for ten', () => {
    expect(proof(half, 7999)).toBe('wait 8000');
    expect(planned(half, 8000)).toEqual({ kind: 'cut', proof: 'instant', without: new Set() });
  });

  it('is three times what sending a set takes, and leaves time to send it', () => {
    expect(proof(half, 0, 600)).toBe('wait 7400');
    expect(proof(half, 0, 10_000)).toBe('wait 18000');
  });

  it('commits none while a proven set is younger', () => {
    const whole = closed(half, 'b', 1001);
    const next = closed(cutTaken(whole, 'round', 1001), 'a', 1002);
    expect(proof(next, 2000, 0)).toBe('wait 11001');
    expect(proof(next, 2000, 3000)).toBe('wait 8001');
  });

  it('makes one when the files of a proven set are being written, and waits for the bound first', () => {
    const whole = closed(half, 'b', 1001);
    expect(planned(whole, 1001, 0, true)).toEqual({ kind: 'wait', untilMs: 8000 });
    expect(planned(whole, 8000, 0, true).kind).toBe('cut');
  });

  it('needs no timer while all is covered', () => {
    expect(planned(cutTaken(half, 'instant', 11_000), 99_999)).toEqual({ kind: 'covered' });
    expect(planned(exact('a'), 99_999)).toEqual({ kind: 'covered' });
  });

  it('counts from the oldest close that no cut covers, also when a cut did not hold', () => {
    const taken = cutTaken(half, 'instant', 11_000);
    expect(proof(cutGivenUp(closed(taken, 'a', 11_500), half), 11_500)).toBe('instant');
  });

  it('has passed when what was closed waits for longer', () => {
    expect([isOverdue(half, 13_000, 0), isOverdue(half, 13_001, 0), isOverdue(half, 13_001, 9000)]).toEqual([
      false,
      true,
      false,
    ]);
  });
});

describe('a task that stops in the middle of a known round', () => {
  /** Three whole rounds, the files of which come `gapMs` apart, and the first file of a fourth one, at 1,000 s. */
  const fourth = (gapMs: number, restMs: number): CutState => {
    let state = exact('a', 'b', 'c');
    const round = gapMs * 2 + restMs;
    for (const startMs of [3, 2, 1].map((n) => 1_000_000 - round * n))
      for (const [at, path] of ['a', 'b', 'c'].entries()) {
        state = closed(state, path, startMs + at * gapMs);
        if (path === 'c') state = cutTaken(state, 'round', startMs + at * gapMs);
      }
    return closed(state, 'a', 1_000_000);
  };
  const stopped = fourth(100, 60_000);

  it('has no cut of an instant before it goes on', () => {
    expect(proof(stopped, 1_006_999)).toBe('wait 1007000');
    expect(proof(stopped, 1_007_000)).toBe('wait undefined');
    expect(proof(stopped, 9_000_000)).toBe('wait undefined');
  });

  it('has one as soon as it goes on after less than the bound, for then it writes slowly', () => {
    expect(proof(closed(stopped, 'b', 1_008_000), 1_008_000)).toBe('instant');
  });

  it('is given as long as the bound from when it goes on after more than that', () => {
    const resumed = closed(stopped, 'b', 1_060_000);
    expect(proof(resumed, 1_060_000)).toBe('wait 1067000');
    expect(proof(closed(resumed, 'c', 1_060_100), 1_060_100)).toBe('round');
  });

  it('is not what writes slowly at all times', () => {
    expect(proof(closed(fourth(4000, 60_000), 'b', 1_004_000), 1_007_000)).toBe('instant');
  });

  it('is not known when each file may be a checkpoint of its own, as far from the next as any other', () => {
    expect(proof(fourth(60_000, 60_000), 1_007_000)).toBe('instant');
    expect(proof(fourth(40_000, 60_000), 1_007_000)).toBe('instant');
  });

  it('is not known when events were lost', () => {
    expect(proof(closesLost(stopped, 1_007_000), 1_007_000)).toBe('instant');
  });

  it('has a cut of an instant when it writes its files in another order, for then no round is known', () => {
    expect(proof(closed(stopped, 'a', 1_060_000), 1_060_000)).toBe('instant');
  });
});

describe('directories that rotate', () => {
  const units = (...members: readonly string[]): CutState =>
    opened({ pattern: 'ck-*/**', inUnits: true, members });

  it('are whole when the next one begins, never after a pause', () => {
    const one = closed(closed(units(), 'ck-1/a', 1000), 'ck-1/b', 4000);
    expect(proof(one, 7000)).toBe('wait 8000');
    expect(planned(closed(one, 'ck-2/a', 9000), 9000)).toEqual({
      kind: 'cut',
      proof: 'unit',
      without: new Set(['ck-2']),
    });
  });

  it('are in the cut of an instant as they are', () => {
    expect(planned(closed(units(), 'ck-1/a', 0), 10_000)).toEqual({
      kind: 'cut',
      proof: 'instant',
      without: new Set(),
    });
  });

  it('leave the one that has begun uncovered', () => {
    const two = closed(closed(units(), 'ck-1/a', 1000), 'ck-2/a', 2000);
    expect(proof(cutTaken(two, 'unit', 2000), 3000)).toBe('wait 12000');
  });

  it('are whole at once when they are renamed into place', () => {
    const how = 'dir-rename' as const;
    const one = closed(closed(units(), 'ck-1/a', 1, { how }), 'ck-1/b', 1, { how });
    expect(planned(one, 1)).toEqual({ kind: 'cut', proof: 'unit', without: new Set() });
  });

  it('are whole when the program says so', () => {
    const one = programSaid(closed(units(), 'ck-1/a', 1));
    expect(planned(one, 1)).toEqual({ kind: 'cut', proof: 'said', without: new Set() });
  });

  it('that are written to again are not whole any more, until another one begins', () => {
    const two = cutTaken(closed(closed(units(), 'ck-1/a', 1), 'ck-2/a', 2), 'unit', 2);
    const late = closed(two, 'ck-1/late', 3);
    expect(proof(late, 3)).toBe('wait 10002');
    expect(planned(closed(late, 'ck-3/a', 4), 4)).toMatchObject({ without: new Set(['ck-3']) });
  });

  it('that a scan finds may be in any order: none proves that another is whole', () => {
    const how = 'scan' as const;
    const two = closed(closed(units(), 'ck-2/a', 1, { how }), 'ck-1/a', 1, { how });
    expect(proof(two, 1)).toBe('wait 7001');
    expect(planned(closed(two, 'ck-3/a', 2), 2)).toMatchObject({ without: new Set(['ck-3']) });
  });

  it('that were restored are whole', () => {
    expect(planned(closed(units('ck-1/a'), 'ck-2/a', 1), 1)).toMatchObject({ without: new Set(['ck-2']) });
  });
});

describe('what there is at the end of a task that failed', () => {
  it.each([
    ['is proven at the end of a round', closed(closed(known(2), 'a', 3), 'b', 4), 'round'],
    ['is incomplete in the middle of one', closed(known(2), 'a', 3), 'incomplete'],
    ['is incomplete if only some of the files were closed', closed(exact('a', 'b'), 'a', 3), 'incomplete'],
    ['is an instant when nothing is known', closed(opened(), 'a.chk', 99_999), 'instant'],
    ['is what was proven, when nothing was closed since', known(2), 'round'],
  ])('%s', (_, state, expected) => {
    expect(worthAtEnd(state, 100_000, 0)).toBe(expected);
  });

  it('is incomplete rather than of an instant while a proven set is younger than the bound', () => {
    const taken = cutTaken(closed(opened(), 'a.chk', 0), 'said', 2000);
    const state = closed(taken, 'a.chk', 11_000);
    expect([worthAtEnd(state, 11_999, 0), worthAtEnd(state, 12_000, 0)]).toEqual(['incomplete', 'instant']);
  });
});
