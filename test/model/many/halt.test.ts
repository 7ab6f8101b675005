import { describe, expect, it } from 'vitest';
import { type Halt, haltingOf, parseHalt } from '../../../src/model/many/halt.ts';

const haltOf = (text: string): Halt => {
  const halt = parseHalt(text);
  if (halt === undefined) throw new Error(`${text} is none`);
  return halt;
};

describe('--halt', () => {
  it.each([
    ['never', 1000, 1000, 'no'],
    ['soon', 0, 10, 'no'],
    ['soon', 1, 10, 'soon'],
    ['now', 1, 10, 'now'],
    ['now,fail=3', 2, 10, 'no'],
    ['now,fail=3', 3, 10, 'now'],
    ['soon,fail=20%', 1, 10, 'no'],
    ['soon,fail=20%', 2, 10, 'soon'],
    ['soon,fail=1%', 1, 3, 'soon'],
    ['soon,fail=34%', 1, 3, 'no'],
    ['now,fail=100%', 2, 3, 'no'],
    ['now,fail=100%', 3, 3, 'now'],
  ])('%s, when %i of %i have failed: %s', (text, failed, all, halting) => {
    expect(haltingOf(haltOf(text), failed, all)).toBe(halting);
  });

  it.each([
    '',
    'later',
    'soon,3',
    'soon,fail',
    'soon,fail=0',
    'now,fail=101%',
    'never,fail=1',
    'now,success=1',
    'soon,fail=-1',
  ])('is not %j', (text) => {
    expect(parseHalt(text)).toBeUndefined();
  });
});
