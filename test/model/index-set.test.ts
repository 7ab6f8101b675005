import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  indexArray,
  compareIndices,
  formatIndices,
  hasIndex,
  hasTooMany,
  INDEX_FORMATS,
  indicesOf,
  parseIndexSet,
} from '../../src/model/index-set.ts';

const numbersOf = (text: string): readonly number[] | undefined => {
  const set = parseIndexSet(text);
  return set === undefined ? undefined : [...indicesOf(set)];
};

describe('a set of indices', () => {
  it.each([
    ['7', [7]],
    ['0-3', [0, 1, 2, 3]],
    ['3,17-19,40-46:2', [3, 17, 18, 19, 40, 42, 44, 46]],
    ['0-7:3', [0, 3, 6]],
    ['0-3%2', [0, 1, 2, 3]],
    ['5,1-3,2', [1, 2, 3, 5]],
    ['1-9:4, 2-9:4', [1, 2, 5, 6, 9]],
  ])('%s holds each of its indices once, ascending', (text, numbers) => {
    expect(numbersOf(text)).toEqual(numbers);
  });

  it.each(['', '3-', '-3', '3-1', 'a', '1-3:0', '1,,2', '1-3:2:1', '1.5', '0-99999999999', '%5', '1 2'])(
    'refuses %j',
    (text) => {
      expect(parseIndexSet(text)).toBeUndefined();
    },
  );

  it('is never expanded: the first of two billion is there at once', () => {
    const set = parseIndexSet('0-2147483647');
    if (set === undefined) throw new Error('refused');
    expect(indicesOf(set).next().value).toBe(0);
    expect(hasIndex(set, 2_147_483_647)).toBe(true);
  });
});

describe('indices for a scheduler', () => {
  const numbers = [3, 17, 18, 19, ...Array.from({ length: 11 }, (_, at) => 40 + 2 * at)];
  it.each([
    ['slurm', '3,17-19,40-60:2'],
    ['lsf', '3,17-19,40-60:2'],
    ['torque', `3,17-19,${numbers.slice(4).join(',')}`],
    ['lines', numbers.join('\n')],
  ] as const)('%s writes them so', (format, text) => {
    expect(formatIndices(numbers, format)).toBe(text);
  });

  it.each([
    [[], ''],
    [[4], '4'],
    [[4, 5], '4-5'],
    [[4, 6], '4,6'],
    [[1, 3, 4, 5], '1,3-5'],
    [[1, 3, 5, 6, 7], '1-5:2,6-7'],
    [[1, 5, 6], '1,5-6'],
  ])('%j are written as %j', (numbers, text) => {
    expect(formatIndices(numbers, 'slurm')).toBe(text);
  });

  it('comes back as it was, in each format', () => {
    const some = fc.uniqueArray(fc.integer({ min: 0, max: 60 }), { minLength: 1 });
    fc.assert(
      fc.property(some, fc.constantFrom(...INDEX_FORMATS), (given, format) => {
        const ascending = given.toSorted((a, b) => a - b);
        const text = formatIndices(ascending, format).replaceAll('\n', ',');
        expect(numbersOf(text)).toEqual(ascending);
      }),
    );
  });
});

it('orders numbers as numbers, and names behind them', () => {
  expect(['b', '10', '007', '9', 'a', '0'].toSorted(compareIndices)).toEqual([
    '0',
    '9',
    '10',
    '007',
    'a',
    'b',
  ]);
});

it('makes an array of each index once, whatever ranges have in common', () => {
  expect([
    ...indexArray({
      ranges: [
        { first: 1, last: 5, step: 2 },
        { first: 3, last: 4, step: 1 },
      ],
    }),
  ]).toEqual([1, 3, 4, 5]);
});

it.each([
  ['0-9999999', false],
  ['0-10000000', true],
  ['0-2147483647:2', true],
])('of %s says at once if they are too many', (text, isTooMany) => {
  expect(hasTooMany(parseIndexSet(text) ?? { ranges: [] })).toBe(isTooMany);
});
