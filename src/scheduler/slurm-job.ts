// Which Slurm job this is, and whether its batch script stands between Slurm and capture. Pure.
import path from 'node:path';
import type { Mistake } from '../model/errors.ts';
import type { SlurmJob } from '../model/format/slurm-job.ts';

/** Undefined outside of Slurm. */
export function slurmJob(env: NodeJS.ProcessEnv): SlurmJob | undefined {
  const job = env['SLURM_JOB_ID'] ?? '';
  if (job === '') return undefined;
  const array = env['SLURM_ARRAY_JOB_ID'] ?? '';
  const index = env['SLURM_ARRAY_TASK_ID'] ?? '';
  // The plain job id of an array's last task is also the id of the whole array: scontrol would requeue all of it.
  const id = array === '' || index === '' ? job : `${array}_${index}`;
  return { id, restarts: Number(env['SLURM_RESTART_COUNT'] ?? '') || 0 };
}

/** capture's parent process, as shown in /proc. */
export interface ParentProcess {
  readonly argv: readonly string[];
  /** SigCgt of proc_pid_status(5): bit N-1 is set if it has a handler for signal N. */
  readonly catches: bigint;
}

const SHELLS: ReadonlySet<string> = new Set([
  'sh',
  'ash',
  'bash',
  'csh',
  'dash',
  'fish',
  'ksh',
  'mksh',
  'tcsh',
  'zsh',
]);
/** USR1, USR2 and TERM (signal(7)): the usual signals of `--signal=B:`. */
const FORWARDED = (1n << 9n) | (1n << 11n) | (1n << 14n);

/**
 * A warning if the parent is the shell that runs the batch script, and only waits for capture. slurmd stores every
 * batch script under the name slurm_script. With exec, or in a step of srun, capture's parent is slurmstepd. A shell
 * with a trap for such a signal passes it on by itself.
 */
export function waitingBatchShell(parent: ParentProcess | undefined): Mistake | undefined {
  const [shell = '', ...words] = parent?.argv ?? [];
  const script = words.find((word) => !word.startsWith('-')) ?? '';
  if (path.basename(script) !== 'slurm_script' || !SHELLS.has(path.basename(shell))) return undefined;
  if (parent === undefined || (parent.catches & FORWARDED) !== 0n) return undefined;
  return {
    message: "the batch script waits for capture: --signal=B: reaches only the script's shell",
    hint: "use 'exec capture ...'",
  };
}
