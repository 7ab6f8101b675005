import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  formatAge,
  formatBytes,
  formatMs,
  parseDurationMs,
  parseSizeBytes,
  plural,
} from '../../src/model/units.ts';

describe('durations', () => {
  it.each([
    ['30s', 30_000],
    ['250ms', 250],
    ['1.5m', 90_000],
    ['1h', 3_600_000],
    ['1d', 86_400_000],
    ['2 s', 2000],
    ['0', 0],
  ])('reads %j', (text, ms) => expect(parseDurationMs(text)).toBe(ms));

  it.each([
    '',
    '30',
    's',
    '-1s',
    '1e3s',
    '30 S',
    '1s2',
    '5constructor',
    `${'9'.repeat(400)}s`,
    '1,5s',
    'Infinitys',
  ])('refuses %j', (text) => expect(parseDurationMs(text)).toBeUndefined());

  it.each([
    [0, '0 ms'],
    [250, '250 ms'],
    [999.6, '1.0 s'],
    [4200, '4.2 s'],
    [59_960, '1 min 0 s'],
    [200_000, '3 min 20 s'],
    [3_599_600, '1 h 0 min'],
    [7_500_000, '2 h 5 min'],
  ])('writes %j as %j', (ms, text) => expect(formatMs(ms)).toBe(text));
});

describe('sizes', () => {
  it.each([
    ['8MiB', 8 * 2 ** 20],
    ['512KiB', 512 * 2 ** 10],
    ['1.5GB', 1_500_000_000],
    ['1TiB', 2 ** 40],
    ['17B', 17],
    ['0', 0],
    ['8M', 8 * 2 ** 20],
    ['1.5G', 1.5 * 2 ** 30],
  ])('reads %j', (text, bytes) => expect(parseSizeBytes(text)).toBe(bytes));

  it.each(['8', '8m', '8mib', '-8MiB', 'MiB', '8 MiB MiB', '1toString'])('refuses %j', (text) =>
    expect(parseSizeBytes(text)).toBeUndefined(),
  );

  it.each([
    [17, '17 B'],
    [1023, '1023 B'],
    [1024, '1.0 KiB'],
    [5222, '5.1 KiB'],
    [2 ** 20 - 1, '1.0 MiB'],
    [1.25 * 2 ** 30, '1.3 GiB'],
  ])('writes %j as %j', (bytes, text) => expect(formatBytes(bytes)).toBe(text));

  it('never writes 1024 of a unit', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 50 }), (bytes) => {
        expect(formatBytes(bytes)).not.toMatch(/^1024/);
      }),
    );
  });
});

it.each([
  [1, 'file', '1 file'],
  [0, 'file', '0 files'],
  [3, 'file', '3 files'],
  [2, 'process', '2 processes'],
])('counts %j %s as %j', (count, noun, text) => expect(plural(count, noun)).toBe(text));

it.each([
  [-3_600_000, '0 s'],
  [8400, '8 s'],
  [59_999, '59 s'],
  [200_000, '3 min'],
  [2 * 3_600_000, '2 h'],
  [3 * 86_400_000, '3 d'],
])('writes an age of %d ms as %j', (ms, text) => expect(formatAge(ms)).toBe(text));
