// What Slurm knows of the jobs of an array: an attempt whose job is gone is stale at once, and what still runs or waits
// needs no second job. Slurm is asked once for all indices, and only if a record names a job of this cluster. If it does
// not answer, nothing changes.
import type { Tools } from '../cli/command.ts';
import type { State } from '../model/format/json-output.ts';
import { errnoOf, reasonOf } from '../model/errors.ts';
import { isLast } from '../model/format/records.ts';
import { forEachAtOnce } from '../model/waiting.ts';
import { askProgram } from '../native/ask-program.ts';
import { readRecord } from '../records/claim.ts';
import {
  sacct,
  type SlurmConfig,
  slurmConfig,
  slurmStates,
  type SlurmStates,
  SQUEUE,
  squeueStates,
} from '../scheduler/slurm-answers.ts';
import { READS_AT_ONCE } from './details.ts';
import { stateOf } from './state.ts';
import type { StoredArray } from './stored-array.ts';
import type { IndexRow, Survey } from './survey.ts';

/** For each program. A line for each job of a large cluster fits. */
const ANSWER = { withinMs: 10_000, mostBytes: 64 * 2 ** 20 };
/** Their ids fit into one word of a command line (execve(2), MAX_ARG_STRLEN). The others stay unknown. */
const MOST_JOBS = 10_000;

/** The Slurm job of an attempt. */
interface AttemptJob {
  readonly id: string;
  readonly cluster: string | undefined;
  /** Its array, if the index is the number of its task there (no --index-map). */
  readonly array: string | undefined;
}

interface Asked {
  readonly array: StoredArray;
  readonly staleAfterMs: number;
  /**
   * Also those that have ended, to leave out what runs again; otherwise running ones, to find the dead, and one that was
   * preempted.
   */
  readonly all: boolean;
}

/** Caches answers, for a command that repeats its look. */
export class SlurmJobs {
  readonly #tools: Pick<Tools, 'log' | 'signal' | 'env'>;
  /** By `<index>/<attempt>`; undefined if it has none. */
  readonly #jobOf = new Map<string, AttemptJob | undefined>();
  /** Attempts whose jobs have ended. */
  readonly #gone = new Set<string>();
  #config: SlurmConfig | undefined;
  /** Why a program could not be asked. */
  #problem: string | undefined;
  #isTold = false;

  constructor(tools: Pick<Tools, 'log' | 'signal' | 'env'>) {
    this.#tools = tools;
  }

  /**
   * What `look` finds, with what Slurm knows. If a job has ended, it looks again: the task may have left its last record
   * between the first look and Slurm's answer.
   */
  async mark(asked: Asked, look: () => Promise<Survey>): Promise<Survey> {
    const found = await look();
    const rows = rowsToAsk(found, asked).filter((row) => !this.#gone.has(attemptOf(row)));
    const jobs = rows.length === 0 ? new Map<string, AttemptJob>() : await this.#jobsOf(asked.array, rows);
    const fresh = freshJobs(jobs, found, this.#config);
    const states = await this.#states(
      [...jobs.values()].map(({ id }) => id),
      fresh,
    );
    const open = new Set(rows.filter(({ newest }) => !isLast(newest.kind)).map(attemptOf));
    const gone = [...jobs.keys()].filter(
      (attempt) => open.has(attempt) && states.ended.has(jobs.get(attempt)?.id ?? ''),
    );
    for (const one of gone) this.#gone.add(one);
    const again = gone.length === 0 ? found : await look();
    return {
      nowMs: again.nowMs,
      rows: again.rows.map((row) => {
        const attempt = attemptOf(row);
        if (this.#gone.has(attempt)) return { ...row, job: 'gone' };
        return states.alive.has(jobs.get(attempt)?.id ?? '') ? { ...row, job: 'alive' } : row;
      }),
      waiting: tasksOf(jobs, states),
    };
  }

  /** By attempt. */
  async #jobsOf(array: StoredArray, rows: readonly IndexRow[]): Promise<ReadonlyMap<string, AttemptJob>> {
    const jobs = new Map<string, AttemptJob>();
    this.#config ??= await this.#ask('scontrol', ['show', 'config'], slurmConfig);
    const config = this.#config;
    // Where Slurm is not installed, no record is read.
    if (config === undefined && this.#problem === undefined) return jobs;
    await forEachAtOnce(rows, READS_AT_ONCE, async (row) => {
      const job = await this.#job(array, row);
      if (job !== undefined && job.cluster === (config ?? job).cluster) jobs.set(attemptOf(row), job);
    });
    // In their order, so that the same one is named each time.
    return new Map(
      rows.flatMap((row) => {
        const job = jobs.get(attemptOf(row));
        return job === undefined ? [] : [[attemptOf(row), job] as const];
      }),
    );
  }

  /** The job of the row's newest attempt. */
  async #job({ store, taskName }: StoredArray, { index, newest }: IndexRow): Promise<AttemptJob | undefined> {
    const attempt = `${index}/${newest.attempt}`;
    if (this.#jobOf.has(attempt)) return this.#jobOf.get(attempt);
    const record = await readRecord(store, { taskName, index }, newest.key, { signal: this.#tools.signal });
    if (record === undefined || 'invalid' in record) return undefined;
    const {
      SLURM_JOB_ID: id = '',
      SLURM_CLUSTER_NAME: cluster,
      SLURM_ARRAY_JOB_ID: array,
      SLURM_ARRAY_TASK_ID: task,
    } = record.scheduler;
    const isJob = /^\d+$/.test(id) && cluster !== undefined;
    const job = isJob ? { id, cluster, array: task === index ? array : undefined } : undefined;
    this.#jobOf.set(attempt, job);
    return job;
  }

  /** A job that is in neither set may run. `fresh`: jobs that squeue must show, running or ended. */
  async #states(jobs: readonly string[], fresh: ReadonlySet<string>): Promise<SlurmStates> {
    if (jobs.length === 0) return { alive: new Set(), ended: new Set() };
    const config = this.#config;
    const shown = config === undefined ? undefined : await this.#ask('squeue', SQUEUE, squeueStates);
    const alive = shown?.alive ?? new Set();
    const ended = new Set(jobs.filter((job) => shown?.ended.has(job) === true && !alive.has(job)));
    const silent = jobs.filter((job) => !alive.has(job) && !ended.has(job)).slice(0, MOST_JOBS);
    if (silent.length === 0) return { alive, ended };
    // Below its header, squeue shows each job that runs or waits, unless it hides those of other users.
    if (shown !== undefined && config?.hidesJobs === false) {
      const missing = silent.find((job) => fresh.has(job));
      if (missing === undefined) return { alive, ended: new Set([...ended, ...silent]) };
      this.#problem ??= `squeue: it does not show job ${missing}, which gave a sign of life within MinJobAge`;
    }
    const accounts = config === undefined ? undefined : await this.#ask('sacct', sacct(silent), slurmStates);
    this.#tellProblem();
    return { alive, ended: new Set([...ended, ...(accounts?.ended ?? [])]) };
  }

  /** Undefined if the program is not here, fails or is not understood. */
  async #ask<T>(
    program: string,
    args: readonly string[],
    parse: (text: string) => T | undefined,
  ): Promise<T | undefined> {
    const { signal } = this.#tools;
    const env = Object.fromEntries(
      Object.entries(this.#tools.env).filter(([name]) => !CHANGES_ANSWER.test(name)),
    );
    let why = 'its answer is not understood';
    try {
      const parsed = parse(await askProgram(program, args, { env, signal, ...ANSWER }));
      if (parsed !== undefined) return parsed;
    } catch (error) {
      signal.throwIfAborted();
      if (errnoOf(error) === 'ENOENT') return undefined;
      why = reasonOf(error);
    }
    this.#problem ??= `${program}: ${why}`;
    return undefined;
  }

  #tellProblem(): void {
    if (this.#problem === undefined || this.#isTold) return;
    this.#isTold = true;
    this.#tools.log.warn(
      `Slurm cannot be asked which jobs have ended (${this.#problem}): the store alone decides`,
    );
  }
}

/** Variables that change what squeue and sacct show. */
const CHANGES_ANSWER = /^(SQUEUE|SACCT)_|^SLURM_CLUSTERS$/;

function rowsToAsk({ rows, nowMs }: Survey, { staleAfterMs, all }: Asked): readonly IndexRow[] {
  const isAsked = (state: State): boolean => (all ? state !== 'done' : state === 'running');
  const asked = new Set(rows.filter((row) => isAsked(stateOf(row, nowMs, staleAfterMs))));
  // Its array may not have started all of its tasks, or runs again those that were preempted.
  const candidates = all ? rows : rows.filter(({ newest }) => newest.kind === 'preempted');
  const [first] = candidates;
  if (first !== undefined)
    asked.add(
      candidates.reduce(
        (newest, row) => ((row.claimedMs ?? 0) > (newest.claimedMs ?? 0) ? row : newest),
        first,
      ),
    );
  return [...asked];
}

function attemptOf({ index, newest }: IndexRow): string {
  return `${index}/${newest.attempt}`;
}

/** Between the look at the store and Slurm's answer, or while the clock of a store is set. */
const FRESH_LESS_MS = 60_000;

/** Jobs that ended less than MinJobAge ago, if at all: a controller that does not show them has lost its state. */
function freshJobs(
  jobs: ReadonlyMap<string, AttemptJob>,
  { rows, nowMs }: Survey,
  config: SlurmConfig | undefined,
): ReadonlySet<string> {
  const sinceMs = nowMs - ((config?.minJobAgeMs ?? 0) - FRESH_LESS_MS);
  const isFresh = ({ seenMs }: IndexRow): boolean =>
    seenMs !== undefined && seenMs > sinceMs && seenMs <= nowMs;
  return new Set(rows.filter(isFresh).flatMap((row) => jobs.get(attemptOf(row))?.id ?? []));
}

/** The indices that the same Slurm arrays still run, or are going to. */
function tasksOf(jobs: ReadonlyMap<string, AttemptJob>, { alive }: SlurmStates): ReadonlySet<string> {
  const arrays = new Set([...jobs.values()].flatMap(({ array }) => array ?? []));
  const tasks = new Set<string>();
  for (const one of alive) {
    const [array = '', task] = one.split('_');
    if (task !== undefined && arrays.has(array)) tasks.add(task);
  }
  return tasks;
}
