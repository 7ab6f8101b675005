// Is this process one of several ranks of srun or mpirun? Then several captures would claim one index and watch one
// directory: the user must put capture around the step, not inside it. Pure.
import type { Mistake } from '../model/errors.ts';

/** Variables with the number of ranks, which the launchers set in each rank. */
const WORLD_SIZES: readonly string[] = [
  'OMPI_COMM_WORLD_SIZE',
  'PMI_SIZE',
  'MV2_COMM_WORLD_SIZE',
  'PALS_NRANKS',
];

/** A mistake inside a parallel step, otherwise undefined. `command`: the task's, for the hint. */
export function parallelStep(env: NodeJS.ProcessEnv, command: string): Mistake | undefined {
  const ranks = ranksOf(env);
  if (ranks === undefined) return undefined;
  return {
    message: `inside a parallel step (${ranks}): each rank would capture the same index`,
    hint: `capture ... -- srun ${command}`,
  };
}

function ranksOf(env: NodeJS.ProcessEnv): string | undefined {
  // The batch script has SLURM_NTASKS and SLURM_PROCID, too; only a step of srun has a numeric step id.
  if (/^\d+$/.test(env['SLURM_STEP_ID'] ?? '')) {
    const name = env['SLURM_STEP_NUM_TASKS'] === undefined ? 'SLURM_NTASKS' : 'SLURM_STEP_NUM_TASKS';
    if (Number(env[name]) > 1) return `${name}=${env[name]}`;
  }
  const name = WORLD_SIZES.find((size) => Number(env[size]) > 1);
  if (name !== undefined) return `${name}=${env[name]}`;
  // PMIx sets the rank and not the size: a rank above 0 means that there are several.
  return Number(env['PMIX_RANK']) > 0 ? `PMIX_RANK=${env['PMIX_RANK']}` : undefined;
}
