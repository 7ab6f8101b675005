import { expect, it } from 'vitest';
import { type Column, fitted, tableLines } from '../../src/array/columns.ts';

it('keeps what fits a terminal that is drawn again and again, and says how much does not', () => {
  expect(fitted(['a', 'b'], 80, 3)).toEqual(['a', 'b']);
  expect(fitted(['a', 'b\nc', 'd'], 80, 4)).toEqual(['a', 'b', 'and 2 more lines']);
  expect(fitted(['12345678'], 5, 24)).toEqual(['1234…']);
});

const COLUMNS: readonly Column[] = [
  { title: 'NAME', align: 'left' },
  { title: 'STATE', align: 'left' },
  { title: 'COUNT', align: 'right' },
  { title: 'WHY', align: 'left' },
];

it('shortens text where a table is wider than the terminal, and no figure', () => {
  const rows = [
    ['a-name-of-thirty-characters-it-is', 'waits for all of the others', '12,345', 'because'],
    ['b', 'done', '1', ''],
  ];
  expect(tableLines(COLUMNS, rows, 60)).toEqual([
    'NAME                    STATE                     COUNT  WHY',
    'a-name-of-thirty-char…  waits for all of the o…  12,345  be…',
    'b                       done                          1',
  ]);
  expect(tableLines(COLUMNS, rows, 20)[1]).toBe('a-name-of…  waits f…');
});
