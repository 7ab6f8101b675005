import { expect, it } from 'vitest';
import { usedWords } from '../../../src/model/format/resources.ts';

it.each([
  [0.25, ['peak memory of the task 1.0 MiB', 'CPU 250 ms']],
  [75, ['peak memory of the task 1.0 MiB', 'CPU 1 min 15 s']],
  [0, ['peak memory of the task 1.0 MiB']],
])('says %d s of CPU time as %j', (cpuS, words) => {
  expect(usedWords({ cpuS, peakMemoryBytes: 2 ** 20 })).toEqual(words);
});
