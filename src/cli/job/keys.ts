// The keys of a job file: the options of all commands that read one, so that one file serves them all. Those that no run
// has belong to a program of its own (src/many), which a run does not load: here are only their names.
import type { JobKey } from '../../model/many/job-file.ts';
import { OPTIONS, optionsOf } from '../options.ts';

/** Of `capture array`, and what `capture submit` has beside it. */
export const OF_MANY: Readonly<Record<string, JobKey['kind']>> = {
  array: 'value',
  tasks: 'value',
  jobs: 'value',
  cpus: 'value',
  memory: 'value',
  nice: 'value',
  'max-load': 'value',
  scratch: 'value',
  retries: 'value',
  halt: 'value',
  joblog: 'value',
  'no-logs': 'flag',
  'on-end': 'value',
  queue: 'value',
  name: 'value',
  priority: 'value',
  needs: 'value',
  after: 'value',
  prepare: 'value',
};

export const JOB_KEYS: readonly JobKey[] = [
  ...optionsOf('run').map((name) => ({ name, kind: OPTIONS[name].kind })),
  ...Object.entries(OF_MANY).map(([name, kind]) => ({ name, kind })),
];
