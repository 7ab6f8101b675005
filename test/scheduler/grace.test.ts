import { expect, it } from 'vitest';
import { defaultGraceMs } from '../../src/scheduler/grace.ts';

it.each([
  [{}, 27_000],
  [{ SLURM_JOB_ID: '1' }, 27_000],
  [{ KUBERNETES_SERVICE_HOST: '10.0.0.1' }, 27_000],
  [{ PBS_JOBID: '1' }, 7000],
  [{ LSB_JOBID: '1' }, 7000],
  [{ NOMAD_ALLOC_ID: 'x' }, 2000],
  [{ FLUX_JOB_ID: 'x', SLURM_JOB_ID: '1' }, 2000],
])('the default grace in %j is %j ms', (env, ms) => {
  expect(defaultGraceMs(env)).toBe(ms);
});
