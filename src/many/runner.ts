// Runs many tasks on this machine: starts as many as fit, gives the youngest back if memory runs short, and ends all
// tasks on a stop. It knows neither where tasks come from nor what a store is.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../log/log.ts';
import {
  Admission,
  isTooBusy,
  lowMemoryBytes,
  type AdmissionVerdict,
  type RunningTask,
  type TaskNeeds,
} from '../model/many/admission.ts';
import type { StopCause } from '../model/format/stop-cause.ts';
import { MemoryGuard } from '../model/many/guard.ts';
import { formatBytes, plural } from '../model/units.ts';
import { Changes } from '../model/waiting.ts';
import { clockMs } from '../native/clock.ts';
import type { Launcher, LauncherEnd } from './launcher.ts';
import type { MachineNow, ThisMachine } from './machine.ts';
import { type Force, FORCES } from './stop-escalation.ts';

export interface StartedTask {
  /** For messages: `melt index 7`. */
  readonly name: string;
  readonly submission: { readonly name: string };
  readonly needs: TaskNeeds;
  readonly launcher: Launcher;
}

/** Supplies tasks, and handles their ends. */
export interface TaskSource<T> {
  /** Looks for tasks, if a look is due. Resolves to the submissions whose tasks must end now, and why. */
  look(): Promise<ReadonlyMap<string, StopCause>>;
  /** Starts the next task. Undefined: no task can start whose needs pass `fits`. It is called again after each wait. */
  startNext(fits: (needs: TaskNeeds) => boolean): Promise<T | undefined>;
  /**
   * Resolves when the task's outcome is recorded and its files are handled. `tooLarge`: it needs more memory than the
   * machine has.
   */
  ended(task: T, end: LauncherEnd, tooLarge: TooLarge | undefined): Promise<void>;
  /** Nothing waits, and no task will be added. */
  isDone(): boolean;
}

export interface TooLarge {
  readonly usedBytes: number;
  readonly limitBytes: number;
}

export interface RunnerOptions<T> {
  readonly source: TaskSource<T>;
  readonly machine: ThisMachine;
  /** Infinity: as many as fit. */
  readonly jobs: number;
  readonly maxLoad: number | undefined;
  readonly log: Log;
  /** How often memory and load are checked. */
  readonly lookEveryMs?: number;
}

const FAILED: StopCause = { why: 'runner failed', reason: 'capture array or capture worker failed' };
const OUT_OF_MEMORY: StopCause = {
  why: 'memory short',
  reason: 'memory ran short for all tasks of this machine',
};

const LOOK_EVERY_MS = 1000;
/**
 * If less memory is free than this many times the limit, it may run out before the next look, so this many more looks
 * are made.
 */
const NEAR = 8;
/**
 * Measuring a task reads some files of /proc for each of its processes. If nothing needs the figures, it is done once
 * in this many looks.
 */
const SELDOM = 10;

/** A running task, and its latest measurement. */
export interface Running<T> extends RunningTask {
  readonly task: T;
  usedBytes: number;
  tooLarge?: TooLarge;
}

export class Runner<T extends StartedTask> {
  readonly #options: RunnerOptions<T>;
  readonly #admission: Admission;
  readonly #guard = new MemoryGuard();
  readonly #running = new Set<Running<T>>();
  readonly #changes = new Changes();
  readonly #lookEveryMs: number;
  #now: MachineNow;
  /** When the memory use of the tasks was last measured. */
  #measuredMs = -Infinity;
  /** Recent starts, which the load average does not show yet. */
  #startedMs: number[] = [];
  /** Memory runs short. */
  #isHeld = false;
  /** Nothing starts for now. */
  #isPaused = false;
  #isFrozen = false;
  /** Nothing starts any more. */
  #isEnding = false;
  #force: Force | undefined;
  #cause: StopCause | undefined;
  /** A notice stands: the machine is going away. */
  #isNoticed = false;
  #hasSaidFewer = false;
  #isFilling = false;
  #isFilledAgain = false;
  /** The error that the source threw. */
  #failure: { readonly error: unknown } | undefined;

  constructor(options: RunnerOptions<T>) {
    this.#options = options;
    const { jobs, machine, lookEveryMs = LOOK_EVERY_MS } = options;
    this.#lookEveryMs = lookEveryMs;
    this.#now = machine.now();
    this.#admission = new Admission({ jobs, cores: machine.cores, memoryBytes: machine.memoryBytes });
  }

  /** The running tasks, oldest first. */
  running(): readonly Running<T>[] {
    return [...this.#running];
  }

  /** Nothing runs, and no task is being started. */
  get isIdle(): boolean {
    return this.#running.size === 0 && !this.#isFilling;
  }

  /** The runner is neither paused nor ending. */
  get mayStart(): boolean {
    return !this.#isPaused && !this.#isLast;
  }

  get isNoticed(): boolean {
    return this.#isNoticed;
  }

  /** Resolves when nothing runs and nothing will start. */
  async run(): Promise<void> {
    const { machine } = this.#options;
    for (;;) {
      // Changes from here on end the wait below.
      const woken = new AbortController();
      const changed = this.#changes.next(woken.signal);
      this.#now = machine.now();
      this.#look(this.#now);
      // Running tasks must end in order: their work directories are removed next.
      if (this.#failure !== undefined) this.stop('checkpoint', FAILED);
      const isOver = this.#isLast && this.isIdle;
      if (!isOver) void this.#fill();
      const isNear = this.#now.availableBytes < NEAR * lowMemoryBytes(machine.memoryBytes);
      const pauseMs = isNear ? this.#lookEveryMs / NEAR : this.#lookEveryMs;
      if (!isOver) await Promise.race([changed, sleep(pauseMs, undefined, woken).catch(() => undefined)]);
      woken.abort();
      if (isOver && this.#failure !== undefined) throw this.#failure.error;
      if (isOver) return;
    }
  }

  /** Starts nothing more. The runner is done when all running tasks have ended. */
  end(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#changes.notify();
  }

  /** Ends the runner, and stops all running tasks. A weaker force than before has no effect. */
  stop(force: Force, cause: StopCause): void {
    this.end();
    if (this.#force !== undefined && FORCES.indexOf(force) <= FORCES.indexOf(this.#force)) return;
    this.#force = force;
    this.#cause ??= cause;
    this.thaw();
    for (const { task } of this.#running) task.launcher.end(force, cause);
  }

  /** Makes the running tasks of the submissions that have a cause checkpoint and end. They resume later. */
  giveBack(causeOf: (submission: string) => StopCause | undefined): void {
    for (const { task, isEnding } of this.#running) {
      const cause = isEnding ? undefined : causeOf(task.submission.name);
      if (cause === undefined) continue;
      this.thaw();
      task.launcher.end('checkpoint', cause);
    }
  }

  pause(isPaused: boolean): void {
    this.#isPaused = isPaused;
    this.#changes.notify();
  }

  /** Suspends all running tasks (SIGTSTP). */
  freeze(): void {
    this.#isFrozen = true;
    this.signal('SIGTSTP');
  }

  /** Must precede a stop: a frozen task could not checkpoint. */
  thaw(): void {
    if (this.#isFrozen) this.signal('SIGCONT');
    this.#isFrozen = false;
  }

  /** A notice that the machine goes away, or that it stays after all. Each task reads the notice itself. */
  noticed(isNoticed: boolean): void {
    this.#isNoticed = isNoticed;
    if (isNoticed) {
      this.thaw();
      for (const { task } of this.#running) task.launcher.noticed();
    }
    this.#changes.notify();
  }

  /** The source may have a new task. */
  wake(): void {
    this.#changes.notify();
  }

  /** Passes a signal on to every task. */
  signal(signal: NodeJS.Signals): void {
    for (const { task } of this.#running) task.launcher.signal(signal);
  }

  /**
   * Logs once that `tasks` run at once, and not as many as `--jobs` asks for; `by` is the limit. Says nothing
   * while peaks are learned: the use of the tasks is not known yet.
   */
  sayFewer({ tasks, by }: { readonly tasks: number; readonly by: string }, needs: TaskNeeds): void {
    const { jobs, machine, log } = this.#options;
    if (this.#hasSaidFewer || jobs === Infinity || (by !== 'cores' && by !== 'memory')) return;
    this.#hasSaidFewer = true;
    const runs = `${plural(tasks, 'task')} at once and not ${jobs} (--jobs)`;
    const bytes = needs.memoryBytes ?? this.#admission.learnedBytes();
    if (by === 'cores')
      log.warn(`${runs}: each takes ${plural(needs.cores, 'core')}, and this machine has ${machine.cores}`, {
        hint: `if a task uses less than that: --cpus ${shareOf(machine.cores, jobs)}`,
      });
    else
      log.warn(
        `${runs}: another one takes ${bytes === undefined ? 'more memory' : `${formatBytes(bytes)} of memory`}, and that is not left for it`,
        { hint: 'if a task uses less than that: --memory 500MiB' },
      );
  }

  get #isLast(): boolean {
    return this.#isEnding || this.#isNoticed || this.#failure !== undefined;
  }

  #look({ availableBytes, psiFullPercent }: MachineNow): void {
    this.#measure(this.#usefulMs());
    const limitBytes = this.#options.machine.memoryBytes;
    const moment = { nowMs: clockMs(), availableBytes, limitBytes, psiFullPercent };
    const verdict = this.#guard.look(moment, this.running());
    this.#isHeld = verdict.kind !== 'calm';
    if (verdict.kind === 'calm' || verdict.kind === 'hold') return;
    const { one } = verdict;
    if (verdict.kind === 'too-large') one.tooLarge = { usedBytes: one.usedBytes, limitBytes };
    else
      this.#options.log.warn(
        `memory runs short (${formatBytes(availableBytes)} left): ${one.task.name} ends, and goes on later`,
      );
    one.task.launcher.end('checkpoint', OUT_OF_MEMORY);
  }

  /** Measures each task, unless the last measurement is younger than this. */
  #measure(ageMs: number): void {
    const nowMs = clockMs();
    if (nowMs < this.#measuredMs + ageMs) return;
    this.#measuredMs = nowMs;
    for (const one of this.#running) one.usedBytes = one.task.launcher.usedBytes();
  }

  /**
   * How long a measurement is valid. The memory guard needs one only if a single task runs; while peaks are learned,
   * every missed measurement may miss a peak.
   */
  #usefulMs(): number {
    if (this.#running.size === 1) return 0;
    const isLearned =
      this.#admission.hasLearned() || this.running().every(({ needs }) => needs.memoryBytes !== undefined);
    return isLearned ? SELDOM * this.#lookEveryMs : this.#lookEveryMs;
  }

  /** Starts as many tasks as fit. Runs concurrently with the memory checks, because the queue may answer slowly. */
  async #fill(): Promise<void> {
    this.#isFilledAgain = this.#isFilling;
    if (this.#isFilling) return;
    this.#isFilling = true;
    const { source } = this.#options;
    // Read before the look: a task that ends after it may be retried.
    const wasIdle = this.#running.size === 0;
    try {
      const ended = await source.look();
      this.giveBack((name) => ended.get(name));
      let task = await this.#next();
      for (; task !== undefined; task = await this.#next()) this.#begin(task);
      if (wasIdle && this.#running.size === 0 && this.mayStart && source.isDone()) this.end();
    } catch (error) {
      this.#fail(error);
    }
    this.#isFilling = false;
    if (this.#isFilledAgain || (this.#isLast && this.isIdle)) this.#changes.notify();
  }

  async #next(): Promise<T | undefined> {
    if (!this.mayStart) return undefined;
    const waits: [why: string, needs: TaskNeeds][] = [];
    const task = await this.#options.source.startNext((needs) => {
      if (!this.#mayStartNow()) return false;
      const verdict = this.#ask(needs);
      if (verdict.kind === 'wait') waits.push([verdict.why, needs]);
      return verdict.kind === 'start';
    });
    // A smaller task may have started instead.
    if (task === undefined && waits[0] !== undefined) {
      const [by, needs] = waits[0];
      this.sayFewer({ tasks: this.#running.size, by }, needs);
    }
    return task;
  }

  /**
   * Whether the load lets another task start. Others use this machine, too; their load must not hold us up for ever.
   */
  #mayStartNow(): boolean {
    return this.mayStart && (this.#running.size === 0 || !(this.#isHeld || this.#isTooBusy()));
  }

  #isTooBusy(): boolean {
    const { maxLoad } = this.#options;
    if (maxLoad === undefined) return false;
    return isTooBusy(maxLoad, { average1m: this.#now.load, startedMs: this.#startedMs, nowMs: clockMs() });
  }

  #ask(needs: TaskNeeds): AdmissionVerdict {
    const { availableBytes } = this.#now;
    const ask = (): AdmissionVerdict =>
      this.#admission.ask(needs, { nowMs: clockMs(), availableBytes, running: this.running() });
    const verdict = ask();
    if (verdict.kind === 'never' || (verdict.kind === 'wait' && NOT_BY_MEMORY.has(verdict.why)))
      return verdict;
    this.#measure(this.#lookEveryMs);
    return ask();
  }

  #begin(task: T): void {
    const { launcher, needs } = task;
    const { startedMs } = launcher;
    const one: Running<T> = {
      task,
      needs,
      startedMs,
      usedBytes: 0,
      get isEnding() {
        return launcher.isEnding;
      },
    };
    this.#running.add(one);
    this.#startedMs = [...this.#startedMs.slice(-MOST_STARTS), startedMs];
    // The stop came while the task was being started.
    if (this.#force !== undefined) launcher.end(this.#force, this.#cause ?? FAILED);
    if (this.#isNoticed) launcher.noticed();
    void this.#end(one).catch((error: unknown) => this.#fail(error));
  }

  async #end(one: Running<T>): Promise<void> {
    const end = await one.task.launcher.ended;
    if (end.kind === 'done') this.#admission.ended(end.peakBytes);
    try {
      await this.#options.source.ended(one.task, end, one.tooLarge);
    } finally {
      this.#running.delete(one);
      this.#changes.notify();
    }
  }

  #fail(error: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = { error };
    this.#changes.notify();
  }
}

/** `cores / tasks`, rounded down to two digits. */
function shareOf(cores: number, tasks: number): number {
  const unit = 10 ** (Math.floor(Math.log10(cores / tasks)) - 1);
  return Number((Math.floor(cores / tasks / unit) * unit).toPrecision(2));
}

/** Limits that do not depend on the memory that tasks use. */
const NOT_BY_MEMORY: ReadonlySet<string> = new Set(['jobs', 'cores']);
/** A bound for recent starts: no more tasks start within these minutes. */
const MOST_STARTS = 1000;
