// Handles the end of a task: updates the queue, the job log and the messages, and removes what is no longer needed.
// Files that exist nowhere else, or that show why a task failed, stay on this machine.
import fs from 'node:fs';
import os from 'node:os';
import type { Log } from '../log/log.ts';
import { reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { Durations } from '../model/many/eta.ts';
import { showCommand } from '../model/many/placeholders.ts';
import type { Submission } from '../model/many/submission.ts';
import { showPath } from '../model/path.ts';
import { formatBytes } from '../model/units.ts';
import type { Board } from './board.ts';
import type { TakenJob } from './broker.ts';
import type { JoblogFile } from './joblog.ts';
import { lastLines } from './last-lines.ts';
import type { LauncherEnd } from './launcher.ts';
import type { JobLeases } from './leases.ts';
import { UNSAVED_HINT } from '../scratch/left-work.ts';
import type { StartedTask, TooLarge } from './runner.ts';
import type { Scratch, TaskDir } from '../scratch/scratch.ts';

/** A task of a submission that runs or has run. */
export interface SubmittedTask extends StartedTask {
  readonly submission: Submission;
  readonly index: number;
  /** A short name, for places with little room: `melt 7`. */
  readonly label: string;
  readonly job: TakenJob;
  /** Its command line as words; empty if it has none. */
  readonly argv: readonly string[];
  readonly dir: TaskDir;
}

export interface OutcomeOptions {
  readonly board: Pick<Board, 'isCancelled' | 'expire'>;
  readonly leases: Pick<JobLeases, 'end'>;
  readonly joblog: JoblogFile | undefined;
  readonly scratch: Pick<Scratch, 'removeKept'>;
  /** The host where kept files are; undefined if the reader of the message knows it. */
  readonly host: string | undefined;
  readonly log: Pick<Log, 'debug' | 'info' | 'warn' | 'error'>;
}

/** How many starts on this machine ended in each way. */
export interface OutcomeCounts {
  readonly done: number;
  /** Failed for good, after the last retry. */
  readonly failed: number;
  readonly retried: number;
  readonly givenBack: number;
  /** Another attempt has these indices. */
  readonly fenced: number;
}

export class TaskOutcomes {
  readonly durations = new Durations();
  readonly #options: OutcomeOptions;
  readonly #counts = { done: 0, failed: 0, retried: 0, givenBack: 0, fenced: 0 };

  constructor(options: OutcomeOptions) {
    this.#options = options;
  }

  counts(): OutcomeCounts {
    return { ...this.#counts };
  }

  /** Resolves when the outcome is recorded everywhere, or waits for the queue to come back. */
  async ended(task: SubmittedTask, end: LauncherEnd, tooLarge: TooLarge | undefined): Promise<void> {
    this.#note(task, end);
    this.#counts[await this.#settle(task, end, tooLarge)] += 1;
  }

  async #settle(
    task: SubmittedTask,
    end: LauncherEnd,
    tooLarge: TooLarge | undefined,
  ): Promise<keyof OutcomeCounts> {
    const { log } = this.#options;
    const { name, dir } = task;
    // The task's own exit status may be that of a fenced attempt: the sidecar's mark decides.
    const kind = end.kind === 'fenced' && !dir.isFenced() ? 'failed' : end.kind;
    if (kind === 'done') {
      log.debug(`${name} is done`, fieldsOf(task));
      this.durations.add(end.runtimeMs);
      return this.#leave(task, 'done');
    }
    if (kind === 'fenced') {
      log.warn(`${name} is at work in another attempt: it is left to that one`, fieldsOf(task));
      return this.#leave(task, 'fenced');
    }
    // A retry would have no more memory.
    if (tooLarge !== undefined) return this.#failed(task, tooLargeText(tooLarge), true);
    if (kind === 'again') {
      log.debug(`${name} has ended, and goes on later`, fieldsOf(task));
      return this.#givenBack(task);
    }
    if (kind === 'failed' && dir.isInVain()) return this.#failed(task, `${whyOf(end)}, ${NOT_AGAIN}`, true);
    return this.#failed(task, whyOf(end), kind === 'final');
  }

  async #leave<K extends 'done' | 'fenced'>(task: SubmittedTask, outcome: K): Promise<K> {
    const { scratch, leases } = this.#options;
    await this.#removed(task.name, task.dir.remove());
    const isOf = (log: string): boolean => lastLines(log).at(-1) === keptLine(task);
    if (outcome === 'done') await this.#removed(task.name, scratch.removeKept(task.index, isOf));
    await leases.end(task.job, () => task.job.done());
    return outcome;
  }

  async #givenBack(task: SubmittedTask): Promise<'givenBack'> {
    const { leases, board } = this.#options;
    const { job, submission } = task;
    await this.#clear(task);
    // A cancelled job has no queue to go back to.
    await leases.end(job, () => (board.isCancelled(submission.name) ? job.done() : job.giveBack()));
    board.expire();
    return 'givenBack';
  }

  async #failed(task: SubmittedTask, why: string, isFinal: boolean): Promise<'failed' | 'retried'> {
    const { leases, board, log } = this.#options;
    const { job, dir, name, label, submission } = task;
    const isLast = isFinal || job.failedBefore >= submission.retries;
    const lines = lastLines(dir.log);
    const kept = isLast ? await this.#kept(task) : [];
    const at = kept.length === 0 ? why : `${why}; kept${this.#onHost()}: ${kept.join(' and ')}`;
    const hint = kept.length === 1 && kept[0]?.endsWith('.log') ? REMOVED_HINT : undefined;
    if (isLast) log.error(`${name} ${at}`, { ...fieldsOf(task), hint });
    else log.warn(`${name} ${why}: try ${job.failedBefore + 1} of ${submission.retries + 1}`, fieldsOf(task));
    for (const line of lines) log.info(`  ${label}: ${line}`, fieldsOf(task));
    if (!isLast) await this.#clear(task);
    await leases.end(job, () => job.failed([at, ...lines].join('\n'), isFinal));
    board.expire();
    return isLast ? 'failed' : 'retried';
  }

  /** Returns the names of what stays. The last line of the log names its index. */
  async #kept(task: SubmittedTask): Promise<readonly string[]> {
    const { name, dir } = task;
    try {
      if (fs.existsSync(dir.log)) fs.appendFileSync(dir.log, `\n${keptLine(task)}\n`);
      return await dir.keep();
    } catch (error) {
      this.#options.log.warn(`the work directory of ${name} cannot be kept: ${reasonOf(error)}`);
      return [];
    }
  }

  /**
   * Empties the work directory for a later try. Files that this try could not store exist only there, so they are kept.
   */
  async #clear(task: SubmittedTask): Promise<void> {
    const { name, dir } = task;
    if (!dir.isUnsaved()) return this.#removed(name, dir.clear());
    const [aside] = dir.setAside();
    if (aside !== undefined)
      this.#options.log.warn(`what ${name} could not store stays${this.#onHost()} in ${aside}`, {
        ...fieldsOf(task),
        hint: UNSAVED_HINT,
      });
  }

  async #removed(name: string, removed: Promise<void>): Promise<void> {
    try {
      await removed;
    } catch (error) {
      this.#options.log.warn(`the work directory of ${name} cannot be removed: ${reasonOf(error)}`);
    }
  }

  #onHost(): string {
    const { host } = this.#options;
    return host === undefined ? '' : ` on ${host}`;
  }

  #note({ index, argv, launcher }: SubmittedTask, end: LauncherEnd): void {
    const { status, signal = 0, runtimeMs, outputBytes } = end;
    this.#options.joblog?.write({
      index,
      host: os.hostname(),
      startedAtMs: launcher.startedMs,
      runtimeMs,
      outputBytes,
      status: signal === 0 ? status : 0,
      signal,
      command: showCommand(argv),
    });
  }
}

/** The task's own lines say why. */
const NOT_AGAIN = 'and a retry would end the same way';

const REMOVED_HINT =
  'what was declared is stored, so its directory in memory is removed: --scratch <dir>, on a disk, keeps it';

/** The last line of the log of an index that failed. A later run of the same array finds the log by it. */
function keptLine({ index, submission: { taskName, store } }: SubmittedTask): string {
  return `capture: this is the log of index ${index} of ${taskName} -> ${showPath(store.url)}, which failed`;
}

function fieldsOf({ index }: SubmittedTask): { readonly index: string } {
  return { index: String(index) };
}

function whyOf({ status, why }: LauncherEnd): string {
  if (why !== undefined) return `failed: ${why}`;
  return status === EXIT.notStored
    ? 'has not stored all (exit status 74)'
    : `failed with exit status ${status}`;
}

function tooLargeText({ usedBytes, limitBytes }: TooLarge): string {
  return `needs more memory than there is: it used ${formatBytes(usedBytes)} of ${formatBytes(limitBytes)}, alone`;
}
