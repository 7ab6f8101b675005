// Supplies a worker's runner with tasks. It takes one job at a time, only from a submission whose tasks could start
// now, creates what the task needs, and starts its launcher.
import fs from 'node:fs';
import type { TaskCommand } from '../cli/job/tasks.ts';
import type { Log } from '../log/log.ts';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import type { TaskNeeds } from '../model/many/admission.ts';
import { LAST_SEEN_VARIABLE } from '../model/format/shared-sidecar.ts';
import type { StopCause } from '../model/format/stop-cause.ts';
import type { QueuedTask, Submission } from '../model/many/submission.ts';
import { showPath } from '../model/path.ts';
import { clockMs } from '../native/clock.ts';
import type { Board, Readiness } from './board.ts';
import { BrokerAway, type TakenJob, type WorkerBroker } from './broker.ts';
import { failedLauncher, type Launcher, type LauncherEnd, type LauncherStart } from './launcher.ts';
import type { JobLeases } from './leases.ts';
import type { SubmittedTask, TaskOutcomes } from './outcomes.ts';
import type { Prepared } from './prepare.ts';
import type { TaskSource, TooLarge } from './runner.ts';
import type { Scratch } from '../scratch/scratch.ts';
import { mayShareSidecar } from './shared-sidecar.ts';

/**
 * The command of a task, and its columns. `dir` is the task's current directory, where `./task` is looked up. Throws if
 * the job does not belong to this submission.
 */
export type CommandOf = (task: QueuedTask, submission: Submission, dir: string) => TaskCommand;

export interface SourceOptions {
  readonly broker: Pick<WorkerBroker, 'take'>;
  readonly board: Board;
  readonly leases: JobLeases;
  readonly outcomes: TaskOutcomes;
  readonly scratch: Pick<Scratch, 'root' | 'dirFor' | 'lockFd' | 'mayBeFull' | 'hasRoom' | 'makeRoom'>;
  readonly prepared: Pick<Prepared, 'dirOf'>;
  readonly commandOf: CommandOf;
  /** The same for all tasks. `options` say where each task reads notices. */
  readonly launch: Pick<LauncherStart, 'env' | 'nice' | 'entry' | 'options'>;
  readonly start: (launcher: LauncherStart) => Launcher;
  /** All tasks are known from the start, so the source ends with the last one. */
  readonly hasEnd: boolean;
  readonly log: Pick<Log, 'warn'>;
}

/** Pause after the queue was away, or answered with an error. */
const PAUSE_MS = 1000;

export class BrokerSource implements TaskSource<SubmittedTask> {
  readonly #options: SourceOptions;
  #asksAgainMs = -Infinity;
  #running = 0;
  /** A task has no room to begin; nothing starts until one of the others has ended. */
  #isFull = false;
  /** No other one runs. */
  #failure: CaptureError | undefined;

  constructor(options: SourceOptions) {
    this.#options = options;
  }

  async look(): Promise<ReadonlyMap<string, StopCause>> {
    const { board } = this.#options;
    await this.#ask(() => board.lookIfDue());
    return board.toBeEnded();
  }

  /** Throws status 69 if the next task has no room to begin, and no other one will make any. */
  async startNext(fits: (needs: TaskNeeds) => boolean): Promise<SubmittedTask | undefined> {
    if (this.#isFull) return undefined;
    const task = await this.#ask(async () => {
      const { board, broker, leases } = this.#options;
      await board.lookIfDue();
      for (const submission of board.inTurn()) {
        if (!fits(needsOf(submission))) continue;
        const job = await broker.take(submission.name).catch(unlessRefused);
        // It still waits, so this worker is not idle; others may go on.
        if (job === 'refused') continue;
        if (job === undefined) {
          board.emptied(submission.name);
          continue;
        }
        leases.add(job);
        const { task } = job;
        if ('why' in task) {
          await leases.end(job, () => job.failed(`cannot be read: ${task.why}`, true));
          continue;
        }
        const hasRoom = await this.#hasRoomFor(namesOf(submission, task.value).name);
        if (hasRoom && fits(needsOf(submission))) return this.#start(submission, job, task.value);
        // The runner's state has changed since the job was requested. Another worker may have room for it.
        await leases.end(job, () => job.giveBack());
        return undefined;
      }
      return undefined;
    });
    if (this.#failure !== undefined) throw this.#failure;
    return task;
  }

  /** Throws status 69 if this task had no room to begin, and no other one will make any. */
  async ended(task: SubmittedTask, end: LauncherEnd, tooLarge: TooLarge | undefined): Promise<void> {
    const { outcomes, scratch } = this.#options;
    this.#running -= 1;
    this.#isFull = false;
    // Status 69 may also be the store's or the index's, and then it is final.
    const hadNoRoom = end.kind === 'final' && end.status === EXIT.unavailable && !scratch.hasRoom();
    await outcomes.ended(task, hadNoRoom ? { ...end, kind: 'again' } : end, tooLarge);
    if (hadNoRoom) await this.#makeRoomFor(task.name);
    if (this.#failure !== undefined) throw this.#failure;
  }

  async #hasRoomFor(name: string): Promise<boolean> {
    const { scratch } = this.#options;
    return !scratch.mayBeFull() || scratch.hasRoom() || this.#makeRoomFor(name);
  }

  async #makeRoomFor(name: string): Promise<boolean> {
    const { scratch, log } = this.#options;
    const full = `no room is left in ${showPath(scratch.root)} for ${name} to begin`;
    const hint = 'make room there, or name a directory of another file system with --scratch';
    const removed = await scratch.makeRoom();
    if (removed.length > 0) log.warn(`${full}: removed ${removed.map(showPath).join(' and ')}`);
    if (removed.length > 0 && scratch.hasRoom()) return true;
    if (this.#running === 0) this.#failure = new CaptureError(EXIT.unavailable, full, { hint });
    else log.warn(`${full}: nothing begins until a task has ended`, { hint });
    this.#isFull = true;
    return false;
  }

  isDone(): boolean {
    return this.#options.hasEnd && this.#options.board.inTurn().length === 0;
  }

  /** Undefined also if the queue is away or answers with an error. The source then pauses for a while. */
  async #ask<T>(act: () => Promise<T>): Promise<T | undefined> {
    if (clockMs() < this.#asksAgainMs) return undefined;
    try {
      return await act();
    } catch (error) {
      this.#asksAgainMs = clockMs() + PAUSE_MS;
      // BrokerAway was already logged.
      if (!(error instanceof BrokerAway))
        this.#options.log.warn(`the queue does not do what was asked: ${reasonOf(error)}`);
      return undefined;
    }
  }

  #start(submission: Submission, job: TakenJob, task: QueuedTask): SubmittedTask {
    this.#running += 1;
    const { scratch, commandOf, prepared, launch, start } = this.#options;
    const { index } = task;
    const dir = scratch.dirFor(index);
    const common = { submission, index, job, dir, needs: needsOf(submission), ...namesOf(submission, task) };
    try {
      const preparedDir = prepared.dirOf(submission);
      const cwd = preparedDir ?? submission.cwd;
      const { argv, env } = commandOf(task, submission, cwd);
      dir.make();
      const launcher = start({
        ...launch,
        options: [
          ...submission.options,
          ...launch.options,
          // Only the store knows: another worker may have finished it without the queue's knowledge.
          '--skip-done',
          `--index=${index}`,
          `--workdir=${dir.path}`,
        ],
        argv,
        env: {
          ...launch.env,
          ...env,
          // Like PBS_O_WORKDIR and SLURM_SUBMIT_DIR: the task itself runs elsewhere.
          CAPTURED_SUBMIT_DIR: submission.cwd,
          ...(job.lastSeen === undefined ? {} : { [LAST_SEEN_VARIABLE]: job.lastSeen }),
          ...(preparedDir === undefined ? {} : { CAPTURED_PREPARED_DIR: preparedDir }),
        },
        cwd,
        logFile: dir.log,
        mayShareSidecar: mayShareSidecar(env),
        lockFd: scratch.lockFd,
        preemptedStatus: submission.preemptedStatus,
        mayAskAgain: submission.mayAskAgain,
      });
      return { ...common, argv, launcher };
    } catch (error) {
      return { ...common, argv: [], launcher: failedLauncher(error) };
    }
  }
}

function namesOf(submission: Submission, { index }: QueuedTask): Pick<SubmittedTask, 'name' | 'label'> {
  const named = (between: string): string => `${submission.name}${between}${index}`.trimStart();
  return { name: named(' index '), label: named(' ') };
}

/** The server answers, so the next submission may work. */
function unlessRefused(error: unknown): 'refused' {
  if (error instanceof BrokerAway && error.kind === 'refused') return 'refused';
  throw error;
}

export function needsOf({ cores, memoryBytes }: Pick<Submission, 'cores' | 'memoryBytes'>): TaskNeeds {
  return { cores, memoryBytes };
}

/** Without --prepare a task starts in the directory of its submission. That needs a shared file system. */
export function readinessOf({ cwd }: Submission): Readiness {
  if (fs.existsSync(cwd)) return { kind: 'ready' };
  return { kind: 'never', why: `the directory where it was submitted, ${cwd}, is not on this machine` };
}
