import { describe, expect, it } from 'vitest';
import {
  boundPassed,
  closedInRound,
  mayRest,
  newRounds,
  orderLost,
  restTaken,
  type Rounds,
} from '../../../src/model/checkpoint/rounds.ts';

const kinOf = (path: string): string => path.replace(/\d+/, '*');
const glob = (): Rounds => newRounds([], false, kinOf);
const named = (...paths: readonly string[]): Rounds => newRounds(paths, true, kinOf);

/** Closes without a pause. */
function closes(rounds: Rounds, ...paths: readonly string[]): Rounds {
  return paths.reduce((before, path) => closedInRound(before, path, false, kinOf), rounds);
}

/** After which of these closes a round has ended: a line of `.` and `!`. */
function ends(rounds: Rounds, ...paths: readonly string[]): string {
  let line = '';
  let state = rounds;
  for (const path of paths) {
    state = closes(state, path);
    line += state.ended ? '!' : '.';
  }
  return line;
}

function afterPause(rounds: Rounds, first: string, ...rest: readonly string[]): Rounds {
  return closes(closedInRound(rounds, first, true, kinOf), ...rest);
}

const words = (text: string): readonly string[] => text.split(' ');

describe('a round', () => {
  it.each([
    ['of one file of a glob', glob(), 'a a a a', '..!!'],
    ['of two', glob(), 'a b a b a b', '...!.!'],
    ['of three', glob(), 'a b c a b c a b c', '.....!..!'],
    ['in which one is written twice', glob(), 'a a b a a b a a b', '.....!..!'],
    ['of names that are new each time', glob(), 'ck.1 ck.2 ck.3 ck.4', '..!!'],
    ['of groups of names that are new each time', glob(), 'm1.a m1.b m2.a m2.b m3.a m3.b', '...!.!'],
    [
      'of names that are new each time, and one that is not',
      glob(),
      'ck.1 last ck.2 last ck.3 last',
      '...!.!',
    ],
    ['of numbered names that come again', glob(), 'r1 r2 r1 r2 r1 r2', '...!.!'],
    ['of exactly named files, at once', named('a', 'b'), 'a b a b', '.!.!'],
    ['of exactly named files, one of them twice', named('a', 'b'), 'a a b a a b', '..!..!'],
    ['of exactly named files, of which one never comes', named('a', 'b'), 'a a a a', '....'],
  ])('%s', (_, rounds, paths, expected) => {
    expect(ends(rounds, ...words(paths))).toBe(expected);
  });

  it('does not wait for what has not come by the bound', () => {
    const passed = boundPassed(closes(named('a', 'b'), 'a', 'a', 'a'), kinOf);
    expect(ends(passed, 'a', 'a')).toBe('!!');
  });

  it('does not wait for what was written once, as the journal of a database that begins, when the bound passes again', () => {
    const cycles = Array.from({ length: 40 }, () => ['db-shm', 'db-wal', 'db']).flat();
    const first = boundPassed(closes(glob(), 'db-journal', ...cycles), kinOf);
    const second = boundPassed(closes(first, ...cycles, 'db-shm'), kinOf);
    expect(ends(second, 'db-wal', 'db', 'db-shm', 'db-wal', 'db')).toBe('.!..!');
  });

  it('keeps its beginning when the bound passes in the middle of it', () => {
    const passed = boundPassed(closes(named('a', 'b', 'never'), 'a', 'b', 'a'), kinOf);
    expect(ends(passed, 'b', 'a', 'b')).toBe('!.!');
  });

  it('that is not as the ones before waits for the file that it lacks until the bound has passed', () => {
    const known = closes(glob(), 'a', 'b', 'a', 'b');
    const broken = closes(known, 'a', 'a', 'a');
    expect([broken.ended, mayRest(broken)]).toEqual([false, false]);
    expect(ends(boundPassed(broken, kinOf), 'a', 'a')).toBe('!!');
  });

  it('is not known any more when a file that nobody knows comes between two, until pauses have shown it', () => {
    const lost = closes(glob(), 'a', 'b', 'a', 'b', 'c', 'a', 'b', 'c', 'a', 'b', 'c');
    expect([lost.ended, mayRest(lost)]).toEqual([false, false]);
    const once = afterPause(lost, 'a', 'b', 'c');
    expect([once.ended, mayRest(once)]).toEqual([false, false]);
    const twice = afterPause(once, 'a', 'b', 'c');
    expect([twice.ended, mayRest(twice)]).toEqual([true, true]);
    expect(ends(twice, 'a', 'b', 'c')).toBe('..!');
  });

  it('is not known any more after lost events, until pauses have shown it', () => {
    const lost = orderLost(closes(named('a', 'b'), 'a', 'b'));
    expect(ends(lost, 'a', 'b', 'a', 'b')).toBe('....');
    const once = afterPause(lost, 'b');
    // What a pause has shown is not so the next time.
    const other = afterPause(once, 'a', 'b');
    expect([other.ended, mayRest(other)]).toEqual([false, false]);
    const alike = afterPause(afterPause(other, 'a', 'b'), 'a', 'b');
    expect(alike.ended).toBe(true);
  });
});

describe('a pause', () => {
  it('proves nothing in the middle of a round that is known, and does at its end', () => {
    const known = closes(glob(), 'a', 'b', 'a', 'b');
    expect(mayRest(closes(known, 'a'))).toBe(false);
    expect(mayRest(closes(known, 'a', 'b'))).toBe(true);
  });

  it('proves nothing while a file that was restored has not come again', () => {
    expect(mayRest(closes(named('a', 'b'), 'a'))).toBe(false);
  });

  it('proves what nobody knows more of, and teaches the round', () => {
    const first = closes(glob(), 'a', 'b');
    expect(mayRest(first)).toBe(true);
    expect(ends(restTaken(first), 'a', 'b')).toBe('.!');
  });

  it('in the first round of all does not hide the rest of it', () => {
    const late = closes(restTaken(closes(glob(), 'a')), 'b');
    expect(mayRest(late)).toBe(true);
    expect(ends(restTaken(late), 'a', 'b', 'a', 'b')).toBe('.!.!');
  });
});
