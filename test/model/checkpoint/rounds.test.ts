import { describe, expect, it } from 'vitest';
import {
  closedInRound,
  cutInRound,
  firmOrder,
  isOrderless,
  looksWhole,
  newRounds,
  orderLost,
  type RoundClose,
  type Rounds,
} from '../../../src/model/checkpoint/rounds.ts';

const kinOf = (path: string): string => path.replace(/\d+/, '*');
const rules = { kinOf, settleMs: 2000 };
const glob = (): Rounds => newRounds([], kinOf);
const named = (...paths: readonly string[]): Rounds => newRounds(paths, kinOf);

const words = (text: string): readonly string[] => text.split(' ');

/** `a` is a close at once, `a+3` one three seconds after the one before; `m2-` of a name whose older one is gone. */
function closes(rounds: Rounds, line: string, how: RoundClose['how'] = 'close'): Rounds {
  return words(line).reduce((before, word) => {
    const [name = '', s = '0'] = word.split('+');
    const path = name.replace('-', '');
    const ms = Number(s) * 1000;
    return closedInRound(before, { path, sinceMs: ms, leastMs: ms, how, rotates: name !== path }, rules);
  }, rounds);
}

/** After which of these closes a round is known to have ended: a line of `.` and `!`. */
function ends(rounds: Rounds, line: string): string {
  let state = rounds;
  return words(line)
    .map((word) => {
      state = closes(state, word);
      return state.phase === 'known' && state.ended ? '!' : '.';
    })
    .join('');
}

const often = (line: string, times: number): string => Array.from({ length: times }, () => line).join(' ');

describe('a round', () => {
  it.each([
    ['of two names', named('a', 'b'), 'a b a b a b a b', '.....!.!'],
    ['of two of a glob', glob(), 'a b a b a b a b', '.....!.!'],
    ['of three', glob(), 'a b c a b c a b c a b c', '........!..!'],
    ['in which each is closed twice', named('a', 'b'), often('a a b b', 4), '...........!...!'],
    ['of groups of names that rotate', glob(), 'm1.a m1.b m2.a m2.b m3.a- m3.b-', '.....!'],
    [
      'of groups of which one rotates later',
      glob(),
      'm1.a m1.b m2.a m2.b m3.a- m3.b m4.a- m4.b-',
      '.......!',
    ],
    ['of parts of the first round', glob(), 'm1.a m1.b m2.a m2.b m3.a m3.b m4.a m4.b', '........'],
    ['of parts of each round', glob(), often('m1.a m1.b m2.a m2.b m3.a m3.b', 4), `${'.'.repeat(17)}!.....!`],
    ['of parts, a pause apart', glob(), often('m1+3 m2+3 m3+3', 4), '........!..!'],
    ['of new names, and one that is not', glob(), 'ck.1 last ck.2 last ck.3- last', '.....!'],
    ['of parts, and a list of them', glob(), 'ck.1 list ck.2 list ck.3 list ck.4 list', '........'],
    ['of numbered names that come again', glob(), 'r1 r2 r1 r2 r1 r2', '.....!'],
    ['of one file, a pause apart', glob(), 'a a+3 a+3 a+3', '..!!'],
    ['of one file that may be the first of more', glob(), 'a a a a', '....'],
    ['of one name that rotates, a pause apart', glob(), 'ck.1 ck.2+3 ck.3-+3 ck.4-+3', '..!!'],
    ['of one new name each time, a pause apart', glob(), 'ck.1 ck.2+3 ck.3+3 ck.4+3', '....'],
    ['of a name that never comes', named('a', 'b'), 'a+3 a+3 a+3 a+3', '....'],
    ['in any order', named('a', 'b'), 'a b b a a b b a', '........'],
    ['of which the first is longer', named('a', 'b'), 'a a b a b a b a b', '.........'],
    ['of which the first is shorter', named('a', 'b'), 'a b a a b a a b a a b', '...........'],
    ['that a file joins', named('a', 'b', 'c'), 'a b a b c a b c a b c', '...........'],
    ['that a new file joins', glob(), 'a b a b a b c a b c a b c a b c', '.....!..........'],
    ['with one close too many', named('a', 'b'), 'a b a b a b a a b a b a b', '.....!.......'],
    ['with the backup of each', named('a', 'A', 'b', 'B'), `a b ${often('A a B b', 4)}`, '.'.repeat(18)],
    ['whose pause inside is the longer one', named('a', 'b'), often('a b+9', 4), '........'],
    [
      'that pauses inside, where others come at once',
      named('a', 'b'),
      'a b a b a b a b+.2 a b',
      '.....!...!',
    ],
    [
      'that pauses inside as no other did, for less than between them',
      named('a', 'b'),
      'a b a+.5 b a+.5 b a+.5 b+.2 a+.5 b+.1',
      '.....!...!',
    ],
    [
      'that pauses inside when it is the third, as the second did not',
      named('a', 'b'),
      'a b a+.5 b a+.5 b+.2 a+.5 b+.2',
      '.......!',
    ],
    ['that stops inside, as no other did', named('a', 'b'), 'a b a+1 b a+1 b a+1 b+9 a+1 b', '.....!.!.!'],
  ])('%s', (_, rounds, line, expected) => {
    expect(ends(rounds, line)).toBe(expected);
  });

  it('is known from its pauses as soon as they agree with the order', () => {
    expect(ends(named('a', 'b'), 'a b+9 a+2 b+9 a+2 b+9 a+2 b+1 a+2 b+1 a b')).toBe('.........!.!');
  });

  it.each([
    ['lost events', (rounds: Rounds): Rounds => orderLost(rounds)],
    ['a file that a walk found', (rounds: Rounds): Rounds => closes(rounds, 'a', 'scan')],
    ['one close too many', (rounds: Rounds): Rounds => closes(rounds, 'b')],
  ])('is known no more after %s, but for an order that is no accident', (_, broken) => {
    expect(ends(broken(closes(named('a', 'b'), often('a b', 19))), 'a b a b')).toBe('....');
    expect(ends(broken(closes(named('a', 'b'), often('a b', 20))), 'b a b a b')).toBe('..!.!');
  });

  it('is never known again once a file has come that no round had', () => {
    expect(ends(closes(glob(), `${often('a b', 20)} c`), 'a b a b')).toBe('....');
  });

  it('is not known if nobody saw the beginning, but for an order that was learned before', () => {
    expect(ends(newRounds(['a', 'b'], kinOf, { begun: true }), often('b a', 5))).toBe('..........');
    const order = firmOrder(closes(named('a', 'b'), often('a b', 20)));
    expect(ends(newRounds(['a', 'b'], kinOf, { begun: true, order }), 'b a b')).toBe('..!');
    expect(firmOrder(closes(named('a', 'b'), often('a b', 19)))).toBeUndefined();
  });

  it('is not known if the walk that finds its first file finds a second one', () => {
    expect(ends(closes(named('a', 'b'), 'a', 'scan'), 'b a b a b')).toBe('....!');
    expect(ends(closes(named('a', 'b'), 'a b', 'scan'), 'a b a b a b')).toBe('......');
  });

  it('is over when the one directory with all its files was renamed into place', () => {
    const placed = closes(named('d/a', 'd/b'), 'd/a', 'dir-rename');
    expect(placed.ended).toBe(false);
    const whole = closes(placed, 'd/b', 'dir-rename');
    expect([whole.phase, whole.ended]).toEqual(['known', true]);
    expect(closes(cutInRound(whole), 'd/a', 'dir-rename').ended).toBe(false);
    expect(ends(whole, 'd/a d/b d/a d/b d/a d/b')).toBe('......');
    expect(closes(named('d/a', 'e/b'), 'd/a e/b', 'dir-rename').ended).toBe(false);
  });
});

it.each([
  ['while it can still be learned', 'a b a b a', false],
  ['once it is known', 'a b a b a b', false],
  ['once three rounds have not told it', 'a b b a a b b', true],
  ['after a close that does not fit', 'a b a b a b b', true],
])('there is no order %s: %s is %s', (_, line, expected) => {
  expect(isOrderless(closes(named('a', 'b'), line))).toBe(expected);
});

describe('without a known order, a set looks whole', () => {
  it('when every file was closed since the last cut', () => {
    const half = closes(named('a', 'b'), 'a a');
    expect([looksWhole(half), looksWhole(closes(half, 'b'))]).toEqual([false, true]);
  });

  it('not because the file that came last is closed again', () => {
    const cut = cutInRound(closes(named('a', 'b'), 'a a b'));
    expect(looksWhole(closes(cut, 'b a'))).toBe(false);
  });

  it('after the last file of an order that was lost', () => {
    const lost = orderLost(closes(named('a', 'b'), 'a b a b a b'));
    expect(['b', 'b a', 'b a b'].map((line) => looksWhole(closes(lost, line)))).toEqual([false, false, true]);
  });
});
