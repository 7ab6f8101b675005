// The keys of a job file: the options of all commands that read one, so that one file serves them all. Options that no
// run has belong to another program (src/many), which a run does not load. So this file lists only their names.
import type { JobKey } from '../../model/many/job-file.ts';
import { optionsOf } from '../options.ts';

/** Options of `capture array`, and those that `capture submit` adds. */
const VALUES_OF_MANY =
  'array tasks jobs cpus memory nice max-load scratch retries halt joblog on-end queue name priority needs after prepare';
export const OF_MANY: readonly JobKey[] = [
  ...VALUES_OF_MANY.split(' ').map((name) => ({ name, kind: 'value' }) as const),
  { name: 'no-logs', kind: 'flag' },
];

export const JOB_KEYS: readonly JobKey[] = [
  ...optionsOf('run').map(({ name, kind }) => ({ name, kind })),
  ...OF_MANY,
];
