// A pod begins with `capture restore --handoff`: what is wrong with the options of its `capture watch` must be found there.
import { describe, expect, it } from 'vitest';
import { parse } from './given.ts';

const BOTH = ['--to', '/s', '--task-name', 'sim', '-k', 'state.chk', '--exit-file', 'status'];
const OF_THE_WATCH = ['--control', '/tmp/c', '--grace', '60s', '--again-status', '85', '--reclaim', 'now'];

describe('capture restore --handoff', () => {
  it('takes all options of the watch that follows', () => {
    const args = ['restore', '--handoff', ...BOTH, ...OF_THE_WATCH];
    expect(parse(args)).toMatchObject({ kind: 'restore', settings: { handoff: true } });
  });

  it.each([
    ['--grace', '60x'],
    ['--again-status', '300'],
    ['--reclaim', 'maybe'],
    ['--verify-at', 'commit'],
    ['--control', ''],
  ])('finds what is wrong with %s %j as the watch would', (...wrong) => {
    const restore = parse(['restore', '--handoff', ...BOTH, ...wrong]);
    expect(restore.kind).toBe('mistakes');
    expect(restore).toEqual(parse(['watch', ...BOTH, ...wrong]));
  });

  it('without --handoff nothing follows, and what means nothing is not read', () => {
    expect(parse(['restore', ...BOTH, '--grace', '60x', '--control', '']).kind).toBe('restore');
  });
});
