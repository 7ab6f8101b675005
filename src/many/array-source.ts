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
import { formatBytes, plural } from '../model/units.ts';
import { clockMs } from '../native/clock.ts';
import type { JoblogFile } from './joblog-file.ts';
import { lastLines } from './last-lines.ts';
import { type Asked, withoutOwn } from './line.ts';
import type { NextTask, TaskSource, TooLarge } from './runner.ts';
import { type Scratch, UNSAVED_HINT } from './scratch.ts';
import type { Seats } from './seats.ts';
import { mayShareSidecar, type SharedSidecar } from './shared-sidecar.ts';
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
  readonly seats: Seats;
  readonly sidecar: SharedSidecar | undefined;
  /** Options of each run beside those that were given: where it hears of notices. */
  readonly added: readonly string[];
}

export class ArraySource implements TaskSource {
  readonly durations = new Durations();
  readonly #options: ArraySourceOptions;

  constructor(options: ArraySourceOptions) {
    this.#options = options;
  }

  next(): NextTask | undefined {
    const { plan, asked } = this.#options;
    const index = plan.next();
    if (index === undefined) return undefined;
    return { index, needs: asked.needs };
  }

  nameOf(index: number): string {
    return `index ${index}`;
  }

  async start(index: number): Promise<Slot> {
    const { plan, scratch } = this.#options;
    plan.started(index, clockMs());
    try {
      await scratch.prepare(index);
      return this.#open(index);
    } catch (error) {
      return failedSlot(index, `its work directory cannot be made: ${reasonOf(error)}`);
    }
  }

  async ended(slot: Slot, end: SlotEnd, tooLarge: TooLarge | undefined): Promise<void> {
    const { plan, scratch } = this.#options;
    const { index } = slot;
    this.#note(slot, end);
    const { kind, why } = this.#judged(index, end, tooLarge);
    // What it has made is not all stored: only its work directory has it.
    const isUnsaved = end.kind !== 'done' && end.kind !== 'fenced' && scratch.isUnsaved(index);
    if (!isUnsaved && kind !== 'failed' && kind !== 'final') await this.#remove(index);
    if (kind === 'done') this.durations.add(end.runtimeMs);
    const before = plan.halting();
    const fate = plan.ended(index, { ...end, kind });
    this.#say(index, fate, why);
    if (before === 'no') this.#sayHalt(plan.halting());
    if (isUnsaved && fate !== 'failed') this.#setAside(index);
  }

  refused(index: number, why: string): void {
    const { plan, log } = this.#options;
    const atMs = clockMs();
    plan.started(index, atMs);
    plan.ended(index, { kind: 'final', status: EXIT.usage, atMs });
    log.error(`index ${index} cannot run here: ${why}`);
  }

  halting(): Halting {
    return this.#options.plan.halting();
  }

  isOver(): boolean {
    return this.#options.plan.isOver();
  }

  #open(index: number): Slot {
    const { asked, scratch, env, entry, added, ownChildren, seats, sidecar } = this.#options;
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
      sidecar: mayShareSidecar(columns) ? sidecar : undefined,
      lockFd: scratch.lockFd,
      nice: asked.nice,
      entry,
      preemptedStatus,
      ownChildren,
      seats,
      mayAskAgain: endRules.againStatuses.length > 0 || endRules.doneWhen !== undefined,
    });
  }

  #judged(
    index: number,
    end: SlotEnd,
    tooLarge: TooLarge | undefined,
  ): Pick<SlotEnd, 'kind'> & { why: string } {
    // No retry gives it more memory.
    if (tooLarge !== undefined)
      return { kind: end.kind === 'done' ? 'done' : 'final', why: tooLargeText(tooLarge) };
    if (end.kind !== 'failed' || !this.#options.scratch.isInVain(index))
      return { kind: end.kind, why: whyOf(end) };
    return { kind: 'final', why: `${whyOf(end)}, ${NOT_AGAIN}` };
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

  /** Before the next try, and before we may be killed: the next runner leaves it where it is, too. */
  #setAside(index: number): void {
    const { scratch, log } = this.#options;
    const aside = scratch.setAside(index);
    if (aside !== undefined)
      log.warn(`what index ${index} could not store stays in ${aside}`, { hint: UNSAVED_HINT });
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
        return this.#sayLines(index, lastLines(scratch.logOf(index)));
      case 'failed': {
        const kept = scratch.keep(index);
        log.error(`index ${index} ${why}; kept: ${kept.join(' and ')}`, fields);
        return this.#sayLines(index, lastLines(kept.at(-1) ?? ''));
      }
    }
  }

  #sayHalt(how: Halting): void {
    if (how === 'no') return;
    const { log, plan } = this.#options;
    const rest = how === 'now' ? ', and those that run are told to end' : '; those that run go on';
    log.warn(`${plural(plan.counts().failed, 'task')} failed: --halt says that no more are started${rest}`);
  }

  #sayLines(index: number, lines: readonly string[]): void {
    const { log } = this.#options;
    for (const line of lines) log.info(`  ${index}: ${line}`, { index: String(index) });
  }
}

/** Its own lines say why. */
export const NOT_AGAIN = 'and a retry would end the same way';

function whyOf({ status, why }: SlotEnd): string {
  const how =
    status === EXIT.notStored ? 'has not stored all (exit status 74)' : `failed with exit status ${status}`;
  return why === undefined ? how : `failed: ${why}`;
}

function tooLargeText({ usedBytes, limitBytes }: TooLarge): string {
  return `needs more memory than there is: it used ${formatBytes(usedBytes)} of ${formatBytes(limitBytes)}, alone`;
}
