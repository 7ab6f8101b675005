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
  type Known,
  type MemberClose,
  type Plan,
} from '../../../src/model/checkpoint/cut.ts';
import { compileRotation } from '../../../src/model/checkpoint/rotation.ts';

const settleMs = 2000;

interface Setting extends Partial<Known> {
  readonly pattern?: string;
  readonly byLast?: boolean;
}

function opened({ pattern = '*.chk', byLast = false, ...known }: Setting = {}): CutState {
  return newCut(
    { settleMs, byLast, rotationOf: compileRotation(pattern) },
    { members: [], complete: false, inUnits: false, inMidst: false, ...known },
  );
}

const exact = (...members: readonly string[]): CutState => opened({ pattern: 'x', members, complete: true });

function closed(state: CutState, path: string, atMs: number, more: Partial<MemberClose> = {}): CutState {
  return memberClosed(state, { path, how: 'close', atMs, isLast: path.endsWith('last'), ...more });
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

  it('is complete at the end of a round', () => {
    const half = closed(exact('a', 'b'), 'a', 1);
    expect(proof(half, 5000)).toBe('wait 7001');
    expect(proof(closed(half, 'b', 2), 2)).toBe('round');
  });

  it('is complete after a pause when no rounds are known', () => {
    const state = closed(opened(), 'a.chk', 1000);
    expect(proof(state, 2999)).toBe('rest 3000');
    expect(proof(state, 3000)).toBe('rest');
  });

  it('is not complete after a pause in the middle of a known round', () => {
    const whole = closed(closed(exact('a', 'b'), 'a', 1), 'b', 2);
    const half = closed(cutTaken(whole, 'round', 2), 'a', 1000);
    expect(proof(half, 9000)).toBe('wait 10002');
    expect(proof(closed(half, 'b', 9000), 9000)).toBe('round');
  });

  it('is complete only by its last file when one is named', () => {
    const byLast = opened({ byLast: true });
    const state = closed(closed(byLast, 'a', 1), 'last', 2);
    expect(proof(state, 2)).toBe('named');
    // The next round has begun: the moment has passed.
    const late = closed(state, 'a', 3);
    expect([proof(late, 7000), late.afterLast]).toEqual(['wait 7001', 'a']);
    // What a walk finds has no order.
    expect(proof(closed(state, 'b', 3, { how: 'scan' }), 3)).toBe('named');
  });

  it('names the file that comes after the last one in the same directory', () => {
    const state = closed(opened({ byLast: true, pattern: '*/**', inUnits: true }), '1/last', 1);
    const next = closed(cutTaken(state, 'named', 1), '2/U', 2);
    expect(next.afterLast).toBeUndefined();
    expect(closed(next, '1/props', 3).afterLast).toBe('1/props');
  });

  it('is complete when the program says so, unless a known round says otherwise', () => {
    expect(proof(programSaid(closed(opened(), 'a.chk', 1)), 1)).toBe('said');
    expect(proof(programSaid(closed(exact('a', 'b'), 'a', 1)), 1)).toBe('wait 7001');
    expect(proof(closed(programSaid(closed(opened(), 'a.chk', 1)), 'b.chk', 2), 2)).toBe('rest 2002');
  });

  it('is complete neither by rounds nor by a pause after lost events, until two rounds in a row were alike', () => {
    const lost = closesLost(closed(exact('a', 'b'), 'a', 1), 2);
    expect(proof(closed(lost, 'b', 3), 7000)).toBe('wait 7001');
    const once = closed(closed(lost, 'a', 5000), 'b', 5001);
    expect(proof(once, 7000)).toBe('wait 7001');
    expect(proof(closed(closed(once, 'a', 9000), 'b', 9001), 9001)).toBe('round');
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
    const rested = closed(opened(), 'a.chk', 0);
    expect(planned(rested, 3000, 0, true)).toEqual({ kind: 'wait', untilMs: 7000 });
  });

  it('needs no timer while all is covered', () => {
    expect(planned(cutTaken(half, 'instant', 11_000), 99_999)).toEqual({ kind: 'covered' });
    expect(planned(exact('a'), 99_999)).toEqual({ kind: 'covered' });
  });

  it('counts from the oldest close that no cut covers, also when a cut did not hold', () => {
    const taken = cutTaken(half, 'instant', 11_000);
    expect(proof(cutGivenUp(closed(taken, 'a', 11_500), half), 11_500)).toBe('instant');
    // What has not come by the bound is not waited for.
    expect(proof(closed(taken, 'a', 11_500), 11_500)).toBe('rest 13500');
  });

  it('has to pass before a name that never comes is not waited for any longer', () => {
    const early = closed(cutTaken(half, 'instant', 8000), 'a', 8500);
    expect(proof(early, 8500)).toBe('wait 15500');
    const late = closed(cutTaken(early, 'instant', 15_500), 'a', 15_600);
    expect(proof(late, 15_600)).toBe('round');
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
  /** Two whole rounds, the files of which come `gapMs` apart, and the first file of a third one, at 100 s. */
  const third = (gapMs: number, restMs: number): CutState => {
    let state = exact('a', 'b', 'c');
    const round = gapMs * 2 + restMs;
    for (const startMs of [100_000 - round * 2, 100_000 - round])
      for (const [at, path] of ['a', 'b', 'c'].entries()) {
        state = closed(state, path, startMs + at * gapMs);
        if (path === 'c') state = cutTaken(state, 'round', startMs + at * gapMs);
      }
    return closed(state, 'a', 100_000);
  };
  const stopped = third(100, 60_000);

  it('has no cut of an instant before it goes on', () => {
    expect(proof(stopped, 106_999)).toBe('wait 107000');
    expect(proof(stopped, 107_000)).toBe('wait undefined');
    expect(proof(stopped, 9_000_000)).toBe('wait undefined');
  });

  it('has one as soon as it goes on after less than the bound, for then it writes slowly', () => {
    expect(proof(closed(stopped, 'b', 108_000), 108_000)).toBe('instant');
  });

  it('is given as long as the bound from when it goes on after more than that', () => {
    const resumed = closed(stopped, 'b', 160_000);
    expect(proof(resumed, 160_000)).toBe('wait 167000');
    expect(proof(closed(resumed, 'c', 160_100), 160_100)).toBe('round');
  });

  it('is not what writes slowly at all times', () => {
    expect(proof(closed(third(4000, 60_000), 'b', 104_000), 107_000)).toBe('instant');
  });

  it('is not known when each file may be a checkpoint of its own, as far from the next as any other', () => {
    expect(proof(third(60_000, 60_000), 107_000)).toBe('instant');
    expect(proof(third(40_000, 60_000), 107_000)).toBe('instant');
  });

  it('is not known when events were lost', () => {
    expect(proof(closesLost(stopped, 107_000), 107_000)).toBe('instant');
  });

  it('has a cut of an instant when it writes its files in another order, for then no round is known', () => {
    expect(proof(closed(stopped, 'a', 160_000), 160_000)).toBe('instant');
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

  it('that were restored are whole', () => {
    expect(planned(closed(units('ck-1/a'), 'ck-2/a', 1), 1)).toMatchObject({ without: new Set(['ck-2']) });
  });
});

describe('what there is at the end of a task that failed', () => {
  const whole = closed(closed(exact('a', 'b'), 'a', 1), 'b', 2);

  it.each([
    ['is proven at the end of a round', whole, 'proven'],
    ['is incomplete in the middle of one', closed(cutTaken(whole, 'round', 2), 'a', 3), 'incomplete'],
    ['is an instant when nothing is known', closed(opened(), 'a.chk', 99_999), 'instant'],
    ['is what was proven, when nothing was closed since', cutTaken(whole, 'round', 2), 'proven'],
  ])('%s', (_, state, expected) => {
    expect(worthAtEnd(state, 100_000, 0)).toBe(expected);
  });

  it('is incomplete rather than of an instant while a proven set is younger than the bound', () => {
    const taken = cutTaken(closed(opened(), 'a.chk', 0), 'rest', 2000);
    const state = closed(taken, 'b.chk', 11_000);
    expect([worthAtEnd(state, 11_999, 0), worthAtEnd(state, 12_000, 0)]).toEqual(['incomplete', 'instant']);
  });
});
