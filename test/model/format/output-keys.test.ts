// The keys of the task's stored output.
import { expect, it } from 'vitest';
import {
  outputKey,
  outputPrefix,
  parseOutputKey,
  streamPrefix,
} from '../../../src/model/format/output-keys.ts';
import { parseRecordKey } from '../../../src/model/format/keys.ts';

const SCOPE = { taskName: 'lmp', index: '3' };

it.each([
  [{ attempt: 1, stream: 'stdout', first: 0, compressed: true } as const, '0001.stdout.000000000000.zst'],
  [{ attempt: 12, stream: 'stderr', first: 262_144, compressed: false } as const, '0012.stderr.000000262144'],
  [
    { attempt: 20_000, stream: 'output', first: 5e12, compressed: true } as const,
    '20000.output.5000000000000.zst',
  ],
])('%j is %s, and back', (segment, name) => {
  const key = outputKey(SCOPE, segment);
  expect(key).toBe(`.capture/~output/lmp/3/${name}`);
  expect(key.startsWith(streamPrefix(SCOPE, segment))).toBe(true);
  expect(key.startsWith(outputPrefix(SCOPE))).toBe(true);
  expect(parseOutputKey(key)).toEqual(segment);
});

it.each([
  '.capture/lmp/3/0001-000001.checkpoint.json',
  'x/0001.stdout.000000000000',
  '.capture/~output/lmp/3/x',
])('%s is none', (key) => {
  expect(parseOutputKey(key)).toBeUndefined();
});

it('none is a record', () => {
  const key = outputKey(SCOPE, { attempt: 1, stream: 'output', first: 0, compressed: false });
  expect(parseRecordKey(key)).toBeUndefined();
});
