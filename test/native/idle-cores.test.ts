import os from 'node:os';
import { expect, it, vi } from 'vitest';
import { idleCores } from '../../src/native/idle-cores.ts';
import { withFilesAlone } from '../support/files-alone.ts';

const some = (percent: string): string =>
  `some avg10=${percent} avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n`;

it.each([
  ['all but the one that looks are idle', '0.00 0.01 0.05 1/100 4711\n', some('0.00'), 8, 8],
  ['what runs takes a core each', '3.00 3.00 3.00 4/100 4711\n', some('0.00'), 8, 5],
  ['more runs than there are cores', '30.0 30.0 30.0 40/900 4711\n', some('0.00'), 8, 0],
  ['something waits for a core now and then', '0.00 0.00 0.00 2/100 4711\n', some('9.99'), 8, 7],
  ['something has waited for long', '0.00 0.00 0.00 2/100 4711\n', some('10.01'), 8, 0],
  ['a kernel without PSI', '0.00 0.00 0.00 2/100 4711\n', undefined, 8, 7],
  ['no /proc at all', undefined, undefined, 8, 0],
  ['a /proc of another kind', 'idle\n', 'none\n', 8, 0],
])('%s', (_, loadavg, pressure, cores, idle) => {
  const files = {
    ...(loadavg === undefined ? {} : { '/proc/loadavg': loadavg }),
    ...(pressure === undefined ? {} : { '/proc/pressure/cpu': pressure }),
  };
  const parallelism = vi.spyOn(os, 'availableParallelism').mockReturnValue(cores);
  try {
    expect(withFilesAlone(files, idleCores)).toBe(idle);
  } finally {
    parallelism.mockRestore();
  }
});

it('is never more than there are', () => {
  expect(idleCores()).toBeGreaterThanOrEqual(0);
  expect(idleCores()).toBeLessThanOrEqual(os.availableParallelism());
});
