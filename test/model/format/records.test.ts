// A record proves its own content: any bit that flips makes it unreadable, never another record.
import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  type CaptureRecord,
  checkSum,
  parseRecord,
  parseSegment,
  textWithSum,
} from '../../../src/model/format/records.ts';

const FILE = {
  path: 'b ä\u{fffd}.chk',
  kind: 'file',
  key: 'b.chk.t.3.1-1.zst',
  push: '46a97dc0-7549-45d5-b7b4-ef9a043d9557',
  attempt: 1,
  md5: '928d23dce7306610be5cdf775c7d2f4d',
  size: 20893,
  compressed: true,
  mtimeNs: '1795187436593462462',
  mode: 420,
} as const;
const SET = {
  attempt: 1,
  generation: 1,
  at: '2026-11-20T15:10:36.786Z',
  members: [FILE],
  companions: [],
  suspect: true,
};
const RECORD: CaptureRecord = {
  format: 1,
  kind: 'checkpoint',
  push: 'p',
  capture: '0.1.0',
  attempt: 1,
  seq: 2,
  at: '2026-11-20T15:10:36.793Z',
  task: 't',
  index: '3',
  runToken: 'r',
  host: 'h',
  argv: ['t'],
  scheduler: {},
  startedAt: '2026-11-20T15:10:36.477Z',
  segments: [],
  results: [FILE],
  partials: [],
  kept: {},
  generations: [SET],
  left: [],
};

/** Every text that differs from this one in one bit, as a reader decodes it. */
function* flipped(text: string): Generator<string> {
  const bytes = Buffer.from(text);
  for (let bit = 0; bit < bytes.length * 8; bit += 1) {
    const at = bit >> 3;
    const before = bytes[at] ?? 0;
    bytes[at] = before ^ (1 << (bit & 7));
    yield bytes.toString('utf8');
    bytes[at] = before;
  }
}

describe('the text of a record', () => {
  it.each([
    ['a list segment that is named twice', { segments: ['a', 'a'] }],
    ['a number that no copy can have', { kept: { r: 2 ** 53 - 1 } }],
    [
      'a set with a number that no key has room for',
      { generations: [{ ...SET, generation: 1_000_000_000 }] },
    ],
    ['an attempt with such a number', { attempt: 1_000_000_000 }],
    ['such a number of its own', { seq: 1_000_000_000 }],
    ['a path that no file can have', { results: [{ ...FILE, path: 'a'.repeat(4352) }] }],
    ['such a path of an older copy', { kept: { ['a'.repeat(4352)]: 1 } }],
    ['such a path of what is missing', { left: [{ path: 'a'.repeat(4352), why: 'gone' }] }],
  ])('is refused with %s', (_, fields) => {
    expect(parseRecord(textWithSum({ ...RECORD, ...fields }))).toHaveProperty('invalid');
  });

  it('is read as it was written', () => {
    expect(parseRecord(textWithSum(RECORD))).toEqual(RECORD);
    expect(parseSegment(textWithSum({ format: 1, results: [FILE] }))).toEqual([FILE]);
  });

  it('is believed with no bit of it flipped', () => {
    const whole = textWithSum(RECORD);
    const believed = [...flipped(whole)].filter((text) => !('invalid' in parseRecord(text)));
    expect(believed).toEqual([]);
  });

  it('of a list segment is believed with no bit of it flipped', () => {
    const whole = textWithSum({ format: 1, results: [FILE] });
    const believed = [...flipped(whole)].filter((text) => !('invalid' in parseSegment(text)));
    expect(believed).toEqual([]);
  });

  it('has a sum that other programs can check: SHA-256 of the text without it', () => {
    const whole = textWithSum(RECORD);
    const [, sum = ''] = /,"sum":"([0-9a-f]{64})"}$/.exec(whole) ?? [];
    const without = whole.replace(/,"sum":"[0-9a-f]{64}"}$/, '}');
    expect(createHash('sha256').update(without).digest('hex')).toBe(sum);
    expect(checkSum(whole)).toBe('right');
  });

  it('may have fields of a later version where the sum is right', () => {
    const later = textWithSum({ ...RECORD, results: [{ ...FILE, later: 1 }], newer: true });
    expect(parseRecord(later)).toEqual(RECORD);
  });

  it('is believed without what it says of resources where that makes no sense', () => {
    const resources = { capture: { cpuS: 1, peakMemoryBytes: 2 }, from: RECORD.at, stepS: 10, series: {} };
    expect(parseRecord(textWithSum({ ...RECORD, resources }))).toEqual({ ...RECORD, resources });
    const senseless = { ...resources, series: { taskCpu: { unit: -1, mean: [], max: [] } } };
    expect(parseRecord(textWithSum({ ...RECORD, resources: senseless }))).toEqual(RECORD);
  });

  it('without a sum is refused', () => {
    expect(parseRecord(JSON.stringify(RECORD))).toEqual({ invalid: 'it has no checksum' });
  });

  it('of another version is refused, and says so', () => {
    expect(parseRecord(textWithSum({ ...RECORD, format: 2 }))).toEqual({
      invalid: 'format: another version of capture wrote it, and this one reads 1',
    });
  });
});

it.each([
  ['lists', `{"x":${'['.repeat(1e5)}${']'.repeat(1e5)}}`],
  ['objects', `${'{"a":'.repeat(1e5)}1${'}'.repeat(1e5)}`],
  ['results', `{"results":${'[{"results":'.repeat(1e5)}1${'}]'.repeat(1e5)}}`],
])('a text of %s that is nested 100,000 deep is no record and no list', (_, text) => {
  expect(parseRecord(text)).toHaveProperty('invalid');
  expect(parseSegment(text)).toHaveProperty('invalid');
});

it.each(['13569465600000000000', '-9223372036854775808000000000', '9223372036854775807999999999'])(
  'a file can have the time %s',
  (mtimeNs) => {
    const [result] = RECORD.results;
    expect(parseRecord(textWithSum({ ...RECORD, results: [{ ...result, mtimeNs }] }))).not.toHaveProperty(
      'invalid',
    );
  },
);

it('a time of a million digits, which would take seconds to read, makes no record', () => {
  const [result] = RECORD.results;
  const text = textWithSum({ ...RECORD, results: [{ ...result, mtimeNs: '1'.repeat(1e6) }] });
  expect(parseRecord(text)).toHaveProperty('invalid');
});
