import { expect, it } from 'vitest';
import { PackedMap } from '../../../src/model/packed/packed-map.ts';
import { NO_RESULT, type ResultRow, resultRow } from '../../../src/model/packed/result-row.ts';

function readBack(row: ResultRow): ResultRow | undefined {
  return new PackedMap(resultRow).set('r.dat', row).get('r.dat');
}

it.each([
  undefined,
  'e30260020baeb0398ff07b37dd33ed16',
  '7b65bbe7-6e26-4034-a697-db08b98bf58b',
  'e30260020baeb0398ff07b37dd33ed16-3',
  'W/"weak"',
  '6933-6-1795414644920428099',
  '',
])('the tag %s comes back as it was', (tag) => {
  expect(readBack({ ...NO_RESULT, tag })).toEqual({ ...NO_RESULT, tag });
});

it.each<Partial<ResultRow>>([
  { publishedMs: 0 },
  { publishedMs: 1_795_719_529_813.142 },
  { nextNumber: 12_000_001 },
  { isReclaimed: true },
  { isOlderKept: true },
  { isConfirmed: true },
  { isRefused: true },
  {
    publishedMs: 7,
    tag: 'e30260020baeb0398ff07b37dd33ed16',
    nextNumber: 2,
    isReclaimed: true,
    isOlderKept: true,
    isConfirmed: true,
    isRefused: true,
  },
])('%j comes back as it was', (part) => {
  expect(readBack({ ...NO_RESULT, ...part })).toEqual({ ...NO_RESULT, ...part });
});
