// Runs many tasks on this machine: starts as many as fit, gives the youngest back when memory runs short, and ends all of
// them when that is wanted. It knows neither where tasks come from nor what a store is.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../log/log.ts';
import {
  Admission,
  isTooBusy,
  shortBytes,
  type AdmissionVerdict,
  type RunningTask,
  type TaskNeeds,
} from '../model/many/admission.ts';
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

/** Where tasks come from, and who hears how they ended. */
export interface TaskSource<T> {
  /** Looks what there is, if that is due. Resolves to the submissions whose tasks are to end now. */
  look(): Promise<ReadonlySet<string>>;
  /** Starts the next task. Undefined: none whose needs `fits` says can start; that is asked again after each wait. */
  startNext(fits: (needs: TaskNeeds) => boolean): Promise<T | undefined>;
  /** Resolves when what it left is where it belongs. `tooLarge`: it needs more memory than there is. */
  ended(task: T, end: LauncherEnd, tooLarge: TooLarge | undefined): Promise<void>;
  /** Nothing waits, and nothing will come. */
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
  /** How often memory and load are looked at. */
  readonly lookEveryMs?: number;
}

const LOOK_EVERY_MS = 1000;
/** With less than so many times what is too little, memory may be gone before the next look: so many more are made. */
const NEAR = 8;
/** Reading what tasks use takes some files of /proc for each of their processes: at so many looks once, if nothing needs it. */
const SELDOM = 10;

/** A task that runs, and what is known of it now. */
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
  /** When what the tasks use was read last. */
  #measuredMs = -Infinity;
  /** Of those that began lately: the load average does not know them yet. */
  #startedMs: number[] = [];
  /** Memory runs short. */
  #isHeld = false;
  /** Nothing is started for now. */
  #isPaused = false;
  #isFrozen = false;
  /** Nothing is started any more. */
  #isEnding = false;
  #force: Force | undefined;
  /** A notice stands: the machine goes. */
  #isNoticed = false;
  #hasSaidFewer = false;
  #isFilling = false;
  #isFilledAgain = false;
  /** What the source threw. */
  #failure: { readonly error: unknown } | undefined;

  constructor(options: RunnerOptions<T>) {
    this.#options = options;
    const { jobs, machine, lookEveryMs = LOOK_EVERY_MS } = options;
    this.#lookEveryMs = lookEveryMs;
    this.#now = machine.now();
    this.#admission = new Admission({ jobs, cores: machine.cores, memoryBytes: machine.memoryBytes });
  }

  /** Those that run, the oldest first. */
  running(): readonly Running<T>[] {
    return [...this.#running];
  }

  /** Nothing runs, and nothing is being taken. */
  get isIdle(): boolean {
    return this.#running.size === 0 && !this.#isFilling;
  }

  /** Nobody wants it to stand still, or to end. */
  get mayStart(): boolean {
    return !this.#isPaused && !this.#isLast;
  }

  get isNoticed(): boolean {
    return this.#isNoticed;
  }

  /** Resolves when nothing runs and nothing is going to. */
  async run(): Promise<void> {
    const { machine } = this.#options;
    for (;;) {
      // What changes from here on ends the wait below.
      const woken = new AbortController();
      const changed = this.#changes.next(woken.signal);
      this.#now = machine.now();
      this.#look(this.#now);
      // What runs must end well: what it works in is removed next.
      if (this.#failure !== undefined) this.stop('checkpoint');
      const isOver = this.#isLast && this.isIdle;
      if (!isOver) void this.#fill();
      const isNear = this.#now.availableBytes < NEAR * shortBytes(machine.memoryBytes);
      const pauseMs = isNear ? this.#lookEveryMs / NEAR : this.#lookEveryMs;
      if (!isOver) await Promise.race([changed, sleep(pauseMs, undefined, woken).catch(() => undefined)]);
      woken.abort();
      if (isOver && this.#failure !== undefined) throw this.#failure.error;
      if (isOver) return;
    }
  }

  /** Starts nothing more: over when all that runs has ended. */
  end(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#changes.notify();
  }

  /** Ends, and tells all that run to end, harder than before or not at all. */
  stop(force: Force): void {
    this.end();
    if (this.#force !== undefined && FORCES.indexOf(force) <= FORCES.indexOf(this.#force)) return;
    this.#force = force;
    this.thaw();
    for (const { task } of this.#running) task.launcher.end(force);
  }

  /** Tells all that run, or those of these submissions, to checkpoint and end; each goes on later. */
  giveBack(submissions?: ReadonlySet<string>): void {
    const given = [...this.#running].filter(
      ({ task, isEnding }) => !isEnding && (submissions?.has(task.submission.name) ?? true),
    );
    if (given.length > 0) this.thaw();
    for (const { task } of given) task.launcher.end('checkpoint');
  }

  pause(isPaused: boolean): void {
    this.#isPaused = isPaused;
    this.#changes.notify();
  }

  /** What runs stands still. */
  freeze(): void {
    this.#isFrozen = true;
    this.signal('SIGTSTP');
  }

  /** What is frozen could not checkpoint. */
  thaw(): void {
    if (this.#isFrozen) this.signal('SIGCONT');
    this.#isFrozen = false;
  }

  /** A notice that the machine goes, of which each task hears by itself, or that it stays after all. */
  noticed(isNoticed: boolean): void {
    this.#isNoticed = isNoticed;
    if (isNoticed) {
      this.thaw();
      for (const { task } of this.#running) task.launcher.noticed();
    }
    this.#changes.notify();
  }

  /** The source may have a task that it did not have before. */
  wake(): void {
    this.#changes.notify();
  }

  /** Passes a signal on to every task. */
  signal(signal: NodeJS.Signals): void {
    for (const { task } of this.#running) task.launcher.signal(signal);
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
    one.task.launcher.end('checkpoint');
  }

  /** Reads what each task uses, unless that was done less than so long ago. */
  #measure(ageMs: number): void {
    const nowMs = clockMs();
    if (nowMs < this.#measuredMs + ageMs) return;
    this.#measuredMs = nowMs;
    for (const one of this.#running) one.usedBytes = one.task.launcher.usedBytes();
  }

  /**
   * How long such figures are good for. The guard asks what a task uses only if it is the last one; while peaks are to be
   * learned, what is not seen is not known.
   */
  #usefulMs(): number {
    if (this.#running.size === 1) return 0;
    const isLearned =
      this.#admission.hasLearned() || this.running().every(({ needs }) => needs.memoryBytes !== undefined);
    return isLearned ? SELDOM * this.#lookEveryMs : this.#lookEveryMs;
  }

  /** Starts as many as fit, beside the looks at memory: the queue may take its time to answer. */
  async #fill(): Promise<void> {
    this.#isFilledAgain = this.#isFilling;
    if (this.#isFilling) return;
    this.#isFilling = true;
    const { source } = this.#options;
    // Before the look: what ends after it may be tried again.
    const wasIdle = this.#running.size === 0;
    try {
      this.giveBack(await source.look());
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
    // A smaller one may have started instead.
    if (task === undefined && waits[0] !== undefined) this.#sayFewer(...waits[0]);
    return task;
  }

  /** Others use this machine, too: what they take must not hold us up for ever. */
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

  /** Once: fewer run than `--jobs` asks for. What tasks use is not known yet while it is learned. */
  #sayFewer(why: string, needs: TaskNeeds): void {
    const { jobs, machine, log } = this.#options;
    if (this.#hasSaidFewer || jobs === Infinity || (why !== 'cores' && why !== 'memory')) return;
    this.#hasSaidFewer = true;
    const runs = `${plural(this.#running.size, 'task')} at once and not ${jobs} (--jobs)`;
    const bytes = needs.memoryBytes ?? this.#admission.learnedBytes();
    if (why === 'cores')
      log.warn(`${runs}: each takes ${plural(needs.cores, 'core')}, and this machine has ${machine.cores}`, {
        hint: 'if a task uses less than that: --cpus 0.5',
      });
    else
      log.warn(
        `${runs}: another one takes ${bytes === undefined ? 'more memory' : `${formatBytes(bytes)} of memory`}, and that is not left for it`,
        { hint: 'if a task uses less than that: --memory 500MiB' },
      );
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
    // Told while it was being started.
    if (this.#force !== undefined) launcher.end(this.#force);
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

/** Whatever the tasks use, no other may start. */
const NOT_BY_MEMORY: ReadonlySet<string> = new Set(['jobs', 'cores']);
/** Of the last minutes: more do not start in that time. */
const MOST_STARTS = 1000;
