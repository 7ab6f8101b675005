// What became of a task of the queue: it goes to the queue, the job log and the messages, and what nobody needs any more is
// removed. What is nowhere else, or shows why a task failed, stays on this machine.
import os from 'node:os';
import type { Log } from '../../log/log.ts';
import { reasonOf } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { showCommand } from '../../model/many/placeholders.ts';
import type { QueuedTask, Submission } from '../../model/many/submission.ts';
import { formatBytes } from '../../model/units.ts';
import { NOT_AGAIN } from '../array-source.ts';
import type { JoblogFile } from '../joblog-file.ts';
import { lastLines } from '../last-lines.ts';
import type { TooLarge } from '../runner.ts';
import { type Scratch, UNSAVED_HINT } from '../scratch.ts';
import type { Slot, SlotEnd } from '../slot.ts';
import type { Board } from './board.ts';
import type { TakenJob, WorkerBroker } from './broker.ts';
import type { Held } from './held.ts';

/** A job that was taken, and what it belongs to. */
export interface QueueTask {
  /** Among those of this worker. */
  readonly number: number;
  readonly submission: Submission;
  readonly task: QueuedTask;
  readonly job: TakenJob;
}

export interface RunningTask extends QueueTask {
  readonly slot: Slot;
}

export interface EndsOptions {
  readonly broker: Pick<WorkerBroker, 'tell'>;
  readonly board: Board;
  readonly held: Held;
  readonly scratch: Pick<
    Scratch,
    'remove' | 'keep' | 'isUnsaved' | 'isInVain' | 'setAside' | 'workdirOf' | 'logOf'
  >;
  /** Of the command line of a task, for the job log. */
  readonly argvOf: (task: QueueTask) => readonly string[];
  readonly joblog: JoblogFile | undefined;
  readonly log: Pick<Log, 'debug' | 'info' | 'warn' | 'error'>;
}

export class Ends {
  readonly #options: EndsOptions;

  constructor(options: EndsOptions) {
    this.#options = options;
  }

  /** Resolves when all is where it belongs, or waits for the queue to come back. */
  async ended(
    one: RunningTask,
    end: SlotEnd,
    tooLarge: TooLarge | undefined,
  ): Promise<'done' | 'failed' | 'givenBack' | 'fenced'> {
    this.#note(one, end);
    const isUnsaved = end.kind !== 'done' && this.#options.scratch.isUnsaved(one.number);
    const { kind } = end;
    if (tooLarge !== undefined && kind !== 'done' && kind !== 'fenced')
      return this.#failed(one, tooLargeText(tooLarge), { isFinal: true, isUnsaved });
    switch (kind) {
      case 'done':
        return this.#done(one);
      case 'again':
        return this.#givenBack(one, isUnsaved);
      case 'fenced':
        return this.#fenced(one);
      case 'failed':
        if (!this.#options.scratch.isInVain(one.number))
          return this.#failed(one, whyOf(end), { isFinal: false, isUnsaved });
        return this.#failed(one, `${whyOf(end)}, ${NOT_AGAIN}`, { isFinal: true, isUnsaved });
      case 'final':
        return this.#failed(one, whyOf(end), { isFinal: true, isUnsaved });
    }
  }

  async #done(one: RunningTask): Promise<'done'> {
    const { held, log } = this.#options;
    log.debug(`${nameOf(one)} is done`, fieldsOf(one));
    await this.#remove(one);
    await held.end(one.job, async () => void (await one.job.done()));
    return 'done';
  }

  async #givenBack(one: RunningTask, isUnsaved: boolean): Promise<'givenBack'> {
    const { held, board } = this.#options;
    const { job, submission } = one;
    if (isUnsaved) this.#setAside(one);
    else await this.#remove(one);
    // What was cancelled has no one to go back to.
    const tell = (): Promise<boolean> => (board.isCancelled(submission.name) ? job.done() : job.giveBack());
    await held.end(job, async () => void (await tell()));
    return 'givenBack';
  }

  async #fenced(one: RunningTask): Promise<'fenced'> {
    const { held, log } = this.#options;
    log.info(`${nameOf(one)} is at work in another attempt: it is left to that one`, fieldsOf(one));
    await this.#remove(one);
    await held.end(one.job, async () => void (await one.job.done()));
    return 'fenced';
  }

  async #failed(
    one: RunningTask,
    why: string,
    { isFinal, isUnsaved }: { readonly isFinal: boolean; readonly isUnsaved: boolean },
  ): Promise<'failed'> {
    const { held, scratch, broker, log } = this.#options;
    const { job, number, submission } = one;
    const lines = lastLines(scratch.logOf(number));
    const isLast = isFinal || job.failedBefore >= submission.retries;
    const kept = isLast ? scratch.keep(number) : [];
    const at = kept.length === 0 ? why : `${why}; kept on ${os.hostname()}: ${kept.join(', ')}`;
    await held.end(job, async () => {
      const fate = await job.failed([at, ...lines].join('\n'), isFinal);
      if (fate === 'failed' && submission.notify !== undefined)
        await broker.tell({ submission: submission.name, event: 'failed' });
      log.error(`${nameOf(one)} ${isLast ? at : `${at} (it is tried again)`}`, fieldsOf(one));
    });
    for (const line of lines) log.info(`  ${nameOf(one)}: ${line}`, fieldsOf(one));
    if (!isLast && isUnsaved) this.#setAside(one);
    else if (!isLast) await this.#remove(one);
    return 'failed';
  }

  /** What it could not store is only there. */
  #setAside(one: RunningTask): void {
    const { scratch, log } = this.#options;
    const kept = scratch.setAside(one.number);
    if (kept !== undefined)
      log.warn(`${nameOf(one)} has not stored all: kept on ${os.hostname()}: ${kept}`, {
        ...fieldsOf(one),
        hint: UNSAVED_HINT,
      });
  }

  async #remove({ number }: RunningTask): Promise<void> {
    try {
      await this.#options.scratch.remove(number);
    } catch (error) {
      this.#options.log.warn(`a work directory cannot be removed: ${reasonOf(error)}`);
    }
  }

  #note(one: RunningTask, { status, signal = 0, runtimeMs, outputBytes }: SlotEnd): void {
    this.#options.joblog?.write({
      index: one.task.index,
      host: os.hostname(),
      startedAtMs: one.slot.startedMs,
      runtimeMs,
      outputBytes,
      status: signal === 0 ? status : 0,
      signal,
      command: showCommand(this.#options.argvOf(one)),
    });
  }
}

/** `melt-7 index 3` */
export function nameOf({ submission, task }: Pick<QueueTask, 'submission' | 'task'>): string {
  return `${submission.name} index ${task.index}`;
}

function fieldsOf({ task }: QueueTask): { readonly index: string } {
  return { index: String(task.index) };
}

function whyOf({ status, why }: SlotEnd): string {
  if (why !== undefined) return `failed: ${why}`;
  return status === EXIT.notStored
    ? 'has not stored all (exit status 74)'
    : `failed with exit status ${status}`;
}

function tooLargeText({ usedBytes, limitBytes }: TooLarge): string {
  return `needs more memory than there is: it used ${formatBytes(usedBytes)} of ${formatBytes(limitBytes)}, alone`;
}
