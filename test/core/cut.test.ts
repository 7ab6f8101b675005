import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  completeness,
  countsLost,
  cutGivenUp,
  cutTaken,
  memberClosed,
  newCut,
  type CutState,
} from '../../src/core/cut.ts';

const rules = { settleMs: 2000, byLast: false, nowMs: 0 };

describe('a set of checkpoint files', () => {
  it('is complete when every named member was closed for the first time', () => {
    let state = newCut(['a', 'b']);
    state = memberClosed(state, 'a', 1, false);
    expect(completeness(state, ['a'], rules).kind).toBe('settling');
    state = memberClosed(state, 'b', 2, false);
    expect(completeness(state, ['a', 'b'], rules).kind).toBe('complete');
  });

  it('is not complete in the middle of a round, and is at its end', () => {
    let state = round(newCut(['a', 'b']), ['a', 'b']);
    state = cutTaken(state, ['a', 'b']);
    state = memberClosed(state, 'a', 3, false);
    expect(completeness(state, ['a', 'b'], rules).kind).toBe('settling');
    state = memberClosed(state, 'b', 4, false);
    expect(completeness(state, ['a', 'b'], rules).kind).toBe('complete');
  });

  it('finds its rounds again after it was one close late', () => {
    let state = round(newCut(['a', 'b']), ['a', 'b']);
    // The next round had begun before anything was looked at.
    state = memberClosed(state, 'a', 3, false);
    expect(completeness(state, ['a', 'b'], rules).kind).toBe('settling');
    state = memberClosed(state, 'b', 4, false);
    expect(completeness(state, ['a', 'b'], rules).kind).toBe('complete');
  });

  it('learns a round in which one file is closed twice', () => {
    let state = cutTaken(round(newCut(['a', 'b']), ['a', 'a', 'b']), ['a', 'b']);
    state = round(state, ['a', 'a']);
    expect(completeness(state, ['a', 'b'], rules).kind).toBe('settling');
    state = memberClosed(state, 'b', 9, false);
    expect(completeness(state, ['a', 'b'], rules).kind).toBe('complete');
  });

  it('is complete when it was quiet for the settle time', () => {
    const state = memberClosed(newCut([]), 'ck.1', 1000, false);
    expect(completeness(state, ['ck.1'], { ...rules, nowMs: 2999 })).toEqual({
      kind: 'settling',
      untilMs: 3000,
    });
    expect(completeness(state, ['ck.1'], { ...rules, nowMs: 3000 }).kind).toBe('complete');
  });

  it('is complete only by its last file when one is named', () => {
    const byLast = { ...rules, byLast: true, nowMs: 1e9 };
    let state = memberClosed(newCut([]), 'a', 1, false);
    expect(completeness(state, ['a', 'z'], byLast).kind).toBe('incomplete');
    state = memberClosed(state, 'z', 2, true);
    expect(completeness(state, ['a', 'z'], byLast).kind).toBe('complete');
    // The next round has begun: the moment has passed.
    state = memberClosed(state, 'a', 3, false);
    expect(completeness(state, ['a', 'z'], byLast).kind).toBe('incomplete');
  });

  it('trusts no count after a queue overflow, only quiet', () => {
    let state = cutTaken(round(newCut(['a', 'b']), ['a', 'b']), ['a', 'b']);
    state = countsLost(state, 10);
    state = round(state, ['a', 'b']);
    expect(completeness(state, ['a', 'b'], { ...rules, nowMs: 11 }).kind).toBe('settling');
    expect(completeness(state, ['a', 'b'], { ...rules, nowMs: 5000 }).kind).toBe('complete');
  });

  it('is not complete while a file that no round has known is among what was closed', () => {
    const known = cutTaken(round(newCut(['a', 'b']), ['a', 'b']), ['a', 'b']);
    const state = round(known, ['a', 'b', 'c']);
    expect(completeness(state, ['a', 'b', 'c'], rules).kind).toBe('settling');
  });

  it('learns a round from a set that was quiet, and is not complete in the middle of the second', () => {
    const quiet = cutTaken(round(newCut([]), ['a', 'b', 'a', 'b']), ['a', 'b']);
    let state = round(quiet, ['a', 'b', 'a', 'b', 'a', 'b']);
    expect(completeness(state, ['a', 'b'], rules).kind).toBe('settling');
    state = round(state, ['a', 'b']);
    expect(completeness(state, ['a', 'b'], rules).kind).toBe('complete');
  });

  it('that was quiet in the middle of a round is complete when that round ends', () => {
    let state = cutTaken(round(newCut(['a', 'b']), ['a', 'b']), ['a', 'b']);
    state = cutTaken(round(state, ['a']), ['a', 'b']);
    state = round(state, ['b']);
    expect(completeness(state, ['a', 'b'], rules).kind).toBe('complete');
  });

  it('waits for quiet from the overflow on, unless it is one file alone', () => {
    const lost = countsLost(newCut(['a']), 5000);
    expect(completeness(lost, ['a', 'b'], { ...rules, nowMs: 5001 })).toEqual({
      kind: 'settling',
      untilMs: 7000,
    });
    expect(completeness(lost, ['a'], { ...rules, nowMs: 5001 }).kind).toBe('complete');
  });

  it('waits for quiet, for its next round or for its last file when a cut did not hold', () => {
    const two = cutGivenUp(cutTaken(round(newCut(['a', 'b']), ['a', 'b']), ['a', 'b']));
    expect(completeness(two, ['a', 'b'], { ...rules, nowMs: 11 })).toEqual({
      kind: 'settling',
      untilMs: 2010,
    });
    expect(completeness(round(two, ['a', 'b']), ['a', 'b'], { ...rules, nowMs: 11 }).kind).toBe('complete');
    const byLast = { ...rules, byLast: true, nowMs: 9999 };
    const last = cutGivenUp(cutTaken(memberClosed(newCut([]), 'z', 1, true), ['z']));
    expect(completeness(last, ['z'], byLast).kind).toBe('incomplete');
    expect(completeness(memberClosed(last, 'z', 2, true), ['z'], byLast).kind).toBe('complete');
  });

  it('is tried again when a cut did not hold', () => {
    const taken = cutTaken(round(newCut(['a']), ['a']), ['a']);
    expect(completeness(taken, ['a'], { ...rules, nowMs: 9999 }).kind).toBe('incomplete');
    expect(completeness(cutGivenUp(taken), ['a'], { ...rules, nowMs: 9999 }).kind).toBe('complete');
  });
});

describe('files that are rewritten in turn without a pause', () => {
  it('are never cut between two of a round, however late the events are read', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(['a', 'b'], ['a', 'b', 'c'], ['a', 'a', 'b']),
        fc.array(fc.oneof(fc.constant('write' as const), fc.constant('look' as const)), { maxLength: 120 }),
        (cycle, steps) => {
          const moments = cutsOf(cycle, steps);
          for (const versions of moments) expect(new Set(versions).size).toBe(1);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('are cut at all when they are looked at after each close', () => {
    const steps = Array.from({ length: 40 }, () => ['write' as const, 'look' as const]).flat();
    expect(cutsOf(['a', 'b'], steps).length).toBeGreaterThan(5);
  });
});

/** Closes in this order, at times far from settling. */
function round(state: CutState, paths: readonly string[]): CutState {
  return paths.reduce((before, path) => memberClosed(before, path, 10, false), state);
}

/**
 * A program that opens and closes the files of `cycle` in turn, and a watcher that reads all queued events
 * when it looks, then takes a cut if the set is complete and no file is open. Gives the versions (rounds) of
 * the files at each cut.
 */
function cutsOf(cycle: readonly string[], steps: readonly ('write' | 'look')[]): number[][] {
  const members = [...new Set(cycle)];
  const version = new Map<string, number>();
  const queue: string[] = [];
  const cuts: number[][] = [];
  let open: string | undefined;
  let position = 0;
  let state = newCut(members);
  for (const step of steps) {
    if (step === 'write') {
      const path = cycle[position % cycle.length] ?? '';
      if (open === undefined) {
        open = path;
        version.set(path, Math.floor(position / cycle.length));
      } else {
        open = undefined;
        queue.push(path);
        position += 1;
      }
      continue;
    }
    for (const path of queue.splice(0)) state = memberClosed(state, path, 0, false);
    if (completeness(state, members, { settleMs: 1e9, byLast: false, nowMs: 0 }).kind !== 'complete')
      continue;
    // The last file of a round can be cut while it is closed but, written twice, not yet in its final state.
    if (open !== undefined) continue;
    state = cutTaken(state, members);
    cuts.push(members.map((path) => version.get(path) ?? -1));
  }
  return cuts;
}
