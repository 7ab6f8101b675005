// The tasks of `capture array`, for the runner: the plan says which is next, each works in a directory of its own, and what
// became of it goes into the plan, the job log and the messages.
import os from 'node:os';
import type { Log } from '../log/log.ts';
import { reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { Durations } from '../model/many/eta.ts';
import type { Halting } from '../model/many/halt.ts';
import { showCommand } from '../model/many/placeholders.ts';
import type { Fate, Plan } from '../model/many/plan.ts';
import { formatBytes } from '../model/units.ts';
import { clockMs } from '../native/clock.ts';
import type { JoblogFile } from './joblog-file.ts';
import { lastLines } from './last-lines.ts';
import { type Asked, withoutOwn } from './line.ts';
import type { NextTask, TaskSource, TooLarge } from './runner.ts';
import type { Scratch } from './scratch.ts';
import { failedSlot, openSlot, type Slot, type SlotEnd } from './slot.ts';

export interface ArraySourceOptions {
  readonly asked: Asked;
  readonly plan: Plan;
  readonly scratch: Scratch;
  readonly joblog: JoblogFile | undefined;
  readonly log: Log;
  readonly env: NodeJS.ProcessEnv;
  /** The module that runs one task. */
  readonly entry: string;
  /** Running children that we started ourselves. */
  readonly ownChildren: Set<number>;
  /** Options of each run beside those that were given: where it hears of notices. */
  readonly added: readonly string[];
}

export class ArraySource implements TaskSource {
  readonly durations = new Durations();
  readonly #options: ArraySourceOptions;
  /** What these have made is not all stored (74): only their work directory has it. */
  readonly #unsaved = new Set<number>();

  constructor(options: ArraySourceOptions) {
    this.#options = options;
  }

  next(): NextTask | undefined {
    const { plan, asked } = this.#options;
    const index = plan.next();
    if (index === undefined) return undefined;
    return { index, needs: asked.needs };
  }

  async start(index: number): Promise<Slot> {
    const { plan, scratch, log } = this.#options;
    plan.started(index, clockMs());
    try {
      if (this.#unsaved.delete(index))
        log.warn(`what index ${index} could not store stays in ${await scratch.setAside(index)}`);
      await scratch.prepare(index);
      return this.#open(index);
    } catch (error) {
      return failedSlot(index, `its work directory cannot be made: ${reasonOf(error)}`);
    }
  }

  async ended(slot: Slot, end: SlotEnd, tooLarge: TooLarge | undefined): Promise<void> {
    const { plan } = this.#options;
    const { index } = slot;
    // No retry gives it more memory.
    const kind = tooLarge === undefined || end.kind === 'done' ? end.kind : 'not-started';
    this.#note(slot, end);
    const why = tooLarge === undefined ? whyOf(end) : tooLargeText(tooLarge);
    if (end.status === EXIT.notStored) this.#unsaved.add(index);
    else if (kind !== 'failed' && kind !== 'not-started') await this.#remove(index);
    if (kind === 'done') this.durations.add(end.runtimeMs);
    this.#say(index, plan.ended(index, { ...end, kind }), why);
  }

  refused(index: number, why: string): void {
    const { plan, log } = this.#options;
    const atMs = clockMs();
    plan.started(index, atMs);
    plan.ended(index, { kind: 'not-started', status: EXIT.usage, atMs });
    log.error(`index ${index} cannot run here: ${why}`);
  }

  halting(): Halting {
    return this.#options.plan.halting();
  }

  isOver(): boolean {
    return this.#options.plan.isOver();
  }

  #open(index: number): Slot {
    const { asked, scratch, env, entry, added, ownChildren } = this.#options;
    const { argv, env: columns } = asked.tasks.commandOf(index);
    const { endRules, preemptedStatus } = asked.settings;
    return openSlot({
      index,
      options: [
        ...asked.passed,
        ...added,
        `--task-name=${asked.taskName}`,
        `--index=${index}`,
        `--workdir=${scratch.workdirOf(index)}`,
      ],
      argv,
      // As PBS_O_WORKDIR and SLURM_SUBMIT_DIR: the task itself works elsewhere.
      env: { ...withoutOwn(env), ...columns, CAPTURED_SUBMIT_DIR: asked.cwd },
      cwd: asked.cwd,
      logFile: scratch.logOf(index),
      lockFd: scratch.lockFd,
      nice: asked.nice,
      entry,
      preemptedStatus,
      ownChildren,
      mayAskAgain: endRules.againStatuses.length > 0 || endRules.doneWhen !== undefined,
    });
  }

  #note({ index, startedMs }: Slot, { status, signal = 0, runtimeMs, outputBytes }: SlotEnd): void {
    this.#options.joblog?.write({
      index,
      host: os.hostname(),
      startedAtMs: startedMs,
      runtimeMs,
      outputBytes,
      status: signal === 0 ? status : 0,
      signal,
      command: showCommand(this.#options.asked.tasks.commandOf(index).argv),
    });
  }

  async #remove(index: number): Promise<void> {
    const { scratch, log } = this.#options;
    try {
      await scratch.remove(index);
    } catch (error) {
      log.warn(`the work directory of index ${index} cannot be removed: ${reasonOf(error)}`);
    }
  }

  #say(index: number, fate: Fate, why: string): void {
    const { scratch, log, plan, asked } = this.#options;
    const fields = { index: String(index) };
    switch (fate) {
      case 'done':
        return log.debug(`index ${index} is done`, fields);
      case 'again':
        return log.debug(`index ${index} has ended, and goes on later`, fields);
      case 'fenced':
        return log.warn(`index ${index} is at work in another attempt: it is left to that one`, fields);
      case 'retry':
        log.warn(`index ${index} ${why}: try ${plan.startsOf(index)} of ${asked.retries + 1}`, fields);
        return this.#sayLastLines(index);
      case 'failed':
        log.error(
          `index ${index} ${why}; kept: ${scratch.workdirOf(index)} and ${scratch.logOf(index)}`,
          fields,
        );
        scratch.keep(index);
        return this.#sayLastLines(index);
    }
  }

  #sayLastLines(index: number): void {
    const { scratch, log } = this.#options;
    for (const line of lastLines(scratch.logOf(index)))
      log.info(`  ${index}: ${line}`, { index: String(index) });
  }
}

function whyOf({ status, why }: SlotEnd): string {
  const how =
    status === EXIT.notStored ? 'has not stored all (exit status 74)' : `failed with exit status ${status}`;
  return why === undefined ? how : `failed: ${why}`;
}

function tooLargeText({ usedBytes, limitBytes }: TooLarge): string {
  return `needs more memory than there is: it used ${formatBytes(usedBytes)} of ${formatBytes(limitBytes)}, alone`;
}
