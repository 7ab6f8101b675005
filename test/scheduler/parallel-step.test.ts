import { describe, expect, it } from 'vitest';
import { parallelStep } from '../../src/scheduler/parallel-step.ts';

describe('a parallel step', () => {
  it.each([
    [{ SLURM_STEP_ID: '0', SLURM_STEP_NUM_TASKS: '4', SLURM_PROCID: '2' }],
    [{ SLURM_STEP_ID: '1', SLURM_NTASKS: '2' }],
    [{ OMPI_COMM_WORLD_SIZE: '2' }],
    [{ PMI_SIZE: '8', PMI_RANK: '0' }],
    [{ PMIX_RANK: '1' }],
  ])('is found in %j', (env) => {
    expect(parallelStep(env, './task')).toEqual({
      message: expect.stringContaining('parallel step'),
      hint: 'capture ... -- srun ./task',
    });
  });

  it.each([
    [{}],
    // The batch script of `sbatch -n 4`.
    [{ SLURM_NTASKS: '4', SLURM_PROCID: '0', SLURM_JOB_ID: '1' }],
    [{ SLURM_STEP_ID: 'batch', SLURM_NTASKS: '4' }],
    [{ SLURM_STEP_ID: '0', SLURM_STEP_NUM_TASKS: '1', SLURM_NTASKS: '4' }],
    [{ OMPI_COMM_WORLD_SIZE: '1', PMIX_RANK: '0', PMI_SIZE: '1' }],
    [{ PMI_SIZE: 'many' }],
  ])('is not seen in %j', (env) => {
    expect(parallelStep(env, './task')).toBeUndefined();
  });
});
