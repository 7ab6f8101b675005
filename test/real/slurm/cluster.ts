// Jobs on the cluster that test/real/slurm.sh started: submits them, waits for what they do, and reads from the
// store what they left. Only Slurm's own commands are used.
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { processesWithEnvironment } from '../../../src/native/processes.ts';

/** Nothing here takes so long; a bound for what hangs. */
const BOUND_MS = 240_000;

/** A command's stdout; rejects with its stderr when it fails. */
export async function slurm(command: string, ...args: readonly string[]): Promise<string> {
  if (process.env['SLURM_CONF'] === undefined) throw new Error('no Slurm here; try: npm run test:real');
  const { stdout } = await promisify(execFile)(command, args);
  return stdout.trim();
}

export interface Job {
  /** As scontrol takes it: with the index when it is one task of an array. */
  readonly id: string;
  /** What attempts of the task have printed so far, one behind the other. */
  output(index?: number): string;
  /** Resolves when the task has printed the text so often. */
  says(text: string | RegExp, times?: number, index?: number): Promise<void>;
  /** Exit status of the last attempt, when the job is over for good. */
  ended(): Promise<number>;
}

export interface Submission {
  /** Where output files go. */
  readonly dir: string;
  /** sbatch's own options. */
  readonly options: readonly string[];
  /** A job script with its arguments, or the text of one. */
  readonly script: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** The job is an array of this one task. */
  readonly index?: number;
}

export async function submit({ dir, options, script, env, index: only }: Submission): Promise<Job> {
  const output = path.join(dir, 'output.%A.%a');
  const array = only === undefined ? [] : [`--array=${only}`];
  const common = ['--parsable', '--open-mode=append', '--requeue', `--output=${output}`];
  const args = [...common, ...array, ...options, ...script];
  const { stdout } = await promisify(execFile)('sbatch', args, { cwd: dir, env: { ...process.env, ...env } });
  const job = stdout.trim();
  const id = only === undefined ? job : `${job}_${only}`;
  // Slurm writes 2^32 - 2 for the index of a job that is no array.
  const outputOf = (index = only ?? 4_294_967_294): string => {
    const file = path.join(dir, `output.${job}.${index}`);
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  };
  return {
    id,
    output: outputOf,
    says: (text, times = 1, index) =>
      until(
        () => outputOf(index).split(text).length > times,
        () => `job ${id} says ${String(text)} ${times} times; its output:\n${outputOf(index)}`,
      ),
    ended: async () => {
      await until(
        async () => /^(COMPLETED|FAILED|CANCELLED|TIMEOUT|PREEMPTED)$/.test(await stateOf(id)),
        () => `job ${id} is over; its output:\n${outputOf()}`,
      );
      return Number(/ExitCode=(\d+):/.exec(await slurm('scontrol', '-o', 'show', 'job', id))?.[1]);
    },
  };
}

/** `PENDING`, `RUNNING`, `COMPLETING`, `COMPLETED`, ... */
export async function stateOf(id: string): Promise<string> {
  return /JobState=(\w+)/.exec(await slurm('scontrol', '-o', 'show', 'job', id))?.[1] ?? '';
}

/** Resolves when no task of the array is pending or running any more. */
export async function arrayEnded(id: string): Promise<void> {
  await until(
    async () => (await slurm('squeue', '--noheader', `--jobs=${id}`, '--format=%i %T')) === '',
    () => `array ${id} is over`,
  );
}

/** Every process of the jobs that store below the URL. */
export function processesOf(url: string): readonly number[] {
  return processesWithEnvironment(`CAPTURE_TO=${url}`);
}

/** Resolves when they are all gone. */
export async function nobodyLeft(url: string): Promise<void> {
  const left = (): readonly number[] => processesOf(url);
  const show = (pid: number): string => `${pid} ${commandOf(pid)}`;
  await until(
    () => left().length === 0,
    () => `no process of the job is left, but: ${left().map(show).join('; ')}`,
    20_000,
  );
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return 'ended just now';
  }
}

export async function until(
  condition: () => boolean | Promise<boolean>,
  what: () => string,
  boundMs = BOUND_MS,
): Promise<void> {
  const endMs = Date.now() + boundMs;
  while (!(await condition())) {
    if (Date.now() > endMs) throw new Error(`waited in vain until ${what()}`);
    await pause(200);
  }
}
