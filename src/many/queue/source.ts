// The tasks of a worker, for the runner: it takes one job at a time, and only of a submission whose tasks could start now;
// how each ended goes back to the queue. What runs has a number of its own here, as several submissions have an index 3.
import { reasonOf } from '../../model/errors.ts';
import type { TaskNeeds } from '../../model/many/admission.ts';
import type { Halting } from '../../model/many/halt.ts';
import { parseQueuedTask, type Submission } from '../../model/many/submission.ts';
import { clockMs } from '../../native/clock.ts';
import type { NextTask, TaskSource, TooLarge } from '../runner.ts';
import type { Scratch } from '../scratch.ts';
import { failedSlot, type Push, type Slot, type SlotEnd } from '../slot.ts';
import { BrokerAway, type WorkerBroker } from './broker.ts';
import { Ends, type EndsOptions, nameOf, type QueueTask, type RunningTask } from './ends.ts';

export interface QueueSourceOptions extends EndsOptions {
  readonly broker: Pick<WorkerBroker, 'take' | 'tell'>;
  readonly scratch: EndsOptions['scratch'] & Pick<Scratch, 'prepare'>;
  /** Starts the launcher of a task whose work directory is made. */
  readonly open: (task: QueueTask) => Slot;
  /** There may be something to start now that was not there before. */
  readonly changed: () => void;
}

export interface SourceCounts {
  readonly done: number;
  readonly failed: number;
  readonly givenBack: number;
}

/** When the queue is away, or something is wrong with it. */
const PAUSE_MS = 1000;

export class QueueSource implements TaskSource {
  readonly #options: QueueSourceOptions;
  readonly #running = new Map<number, RunningTask>();
  #numbers = 0;
  /** Taken and not started yet. */
  #next: QueueTask | undefined;
  #isTaking = false;
  #takesAgainMs = 0;
  /** A person, or a rule, wants nothing to be started for now. */
  #isPaused = false;
  #isEnding = false;
  readonly #ends: Ends;
  readonly #counts = { done: 0, failed: 0, givenBack: 0, fenced: 0 };

  constructor(options: QueueSourceOptions) {
    this.#options = options;
    this.#ends = new Ends(options);
  }

  next(fits: (needs: TaskNeeds) => boolean): NextTask | undefined {
    const next = this.#next;
    if (next === undefined) {
      this.#take(fits);
      return undefined;
    }
    const needs = needsOf(next.submission);
    if (this.mayStart && fits(needs)) return { index: next.number, needs };
    // Another worker may have room for it.
    this.#next = undefined;
    this.#giveBack(next);
    return undefined;
  }

  nameOf(number: number): string {
    const one = this.#running.get(number);
    return one === undefined ? `task ${number}` : nameOf(one);
  }

  async start(number: number): Promise<Slot> {
    const next = this.#next;
    if (next?.number !== number) return failedSlot(number, 'it was given back');
    this.#next = undefined;
    const slot = await this.#open(next);
    this.#running.set(number, { ...next, slot });
    return slot;
  }

  async ended(slot: Slot, end: SlotEnd, tooLarge: TooLarge | undefined): Promise<void> {
    const one = this.#running.get(slot.index);
    if (one === undefined) return;
    this.#counts[await this.#ends.ended(one, end, tooLarge)] += 1;
    this.#running.delete(slot.index);
  }

  refused(number: number, why: string): void {
    const next = this.#next;
    if (next?.number !== number) return;
    this.#next = undefined;
    this.#options.log.warn(`${nameOf(next)} cannot run here: ${why}`);
    this.#giveBack(next);
  }

  halting(): Halting {
    return this.#isEnding ? 'soon' : 'no';
  }

  isOver(): boolean {
    return this.#isEnding && this.#next === undefined && !this.#isTaking && this.#running.size === 0;
  }

  /** Nothing runs, and nothing is being taken. */
  get isIdle(): boolean {
    return this.#running.size === 0 && this.#next === undefined && !this.#isTaking;
  }

  /** Nobody wants it to stand still, or to end. */
  get mayStart(): boolean {
    return !this.#isPaused && !this.#isEnding;
  }

  counts(): SourceCounts {
    return { ...this.#counts };
  }

  /** Takes nothing more; over when all that runs has ended. */
  end(): void {
    this.#isEnding = true;
    this.#dropNext();
  }

  pause(isPaused: boolean): void {
    this.#isPaused = isPaused;
    if (isPaused) this.#dropNext();
  }

  /** Tells all that run, or those of these submissions, to end; each goes on later. */
  push(how: Push, submissions?: ReadonlySet<string>): void {
    for (const { slot, submission } of this.#running.values())
      if (!slot.isEnding && (submissions?.has(submission.name) ?? true)) slot.end(how);
  }

  #dropNext(): void {
    const next = this.#next;
    this.#next = undefined;
    if (next !== undefined) this.#giveBack(next);
  }

  #giveBack({ job }: QueueTask): void {
    const { held } = this.#options;
    void held
      .end(job, async () => void (await job.giveBack()))
      .catch((error: unknown) => this.#sayOdd(error));
  }

  #take(fits: (needs: TaskNeeds) => boolean): void {
    if (this.#isTaking || !this.mayStart || clockMs() < this.#takesAgainMs) return;
    const fitting = this.#options.board.inTurn().filter((one) => fits(needsOf(one)));
    if (fitting.length === 0) return;
    this.#isTaking = true;
    void this.#takeFirst(fitting)
      .catch((error: unknown) => {
        this.#takesAgainMs = clockMs() + PAUSE_MS;
        // That it is away was said already.
        if (!(error instanceof BrokerAway)) this.#sayOdd(error);
      })
      .finally(() => {
        this.#isTaking = false;
        if (this.#next !== undefined || this.#isEnding) this.#options.changed();
      });
  }

  async #takeFirst(fitting: readonly Submission[]): Promise<void> {
    const { broker, board, held } = this.#options;
    for (const submission of fitting) {
      const job = await broker.take(submission.name);
      if (job === undefined) {
        board.emptied(submission.name);
        continue;
      }
      held.add(job);
      const found = parseQueuedTask(job.data);
      if ('why' in found) {
        await held.end(job, async () => void (await job.failed(`cannot be read: ${found.why}`, true)));
        continue;
      }
      this.#numbers += 1;
      const next = { number: this.#numbers, submission, task: found.value, job };
      // Somebody paused us while it was on its way.
      if (this.mayStart) this.#next = next;
      else this.#giveBack(next);
      return;
    }
  }

  async #open(next: QueueTask): Promise<Slot> {
    const { scratch, open } = this.#options;
    try {
      await scratch.prepare(next.number);
      return open(next);
    } catch (error) {
      return failedSlot(next.number, `it cannot be started: ${reasonOf(error)}`);
    }
  }

  #sayOdd(error: unknown): void {
    this.#options.log.warn(`the queue does not do what was asked: ${reasonOf(error)}`);
  }
}

export function needsOf({ cores, memoryBytes }: Pick<Submission, 'cores' | 'memoryBytes'>): TaskNeeds {
  return { cores, memoryBytes };
}
