// Runs many tasks on this machine: takes them from a source, starts as many as fit, gives the youngest back when memory
// runs short, and tells the source how each ended. It knows neither where tasks come from nor what a store is.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../log/log.ts';
import {
  Admission,
  shortBytes,
  type AdmissionVerdict,
  type RunningTask,
  type TaskNeeds,
} from '../model/many/admission.ts';
import { MemoryGuard } from '../model/many/guard.ts';
import type { Halting } from '../model/many/halt.ts';
import { isTooBusy } from '../model/many/load.ts';
import { formatBytes, plural } from '../model/units.ts';
import { Changes } from '../model/waiting.ts';
import { clockMs } from '../native/clock.ts';
import type { MachineNow, ThisMachine } from './machine.ts';
import type { Push, Slot, SlotEnd } from './slot.ts';

/** One task that may start now. */
export interface NextTask {
  /** Of no other that runs. */
  readonly index: number;
  readonly needs: TaskNeeds;
}

/** Where tasks come from, and who hears how they ended. */
export interface TaskSource {
  /**
   * The next one, which stays there until it is started. Undefined: none, for now or at all. `fits` says whether a task
   * with these needs could start now: a source with several kinds of tasks looks for one that does.
   */
  next(fits: (needs: TaskNeeds) => boolean): NextTask | undefined;
  /** For messages: `index 7`. */
  nameOf(index: number): string;
  /** Makes what it needs and starts it. */
  start(index: number): Promise<Slot>;
  /** Resolves when what it left is where it belongs. `tooLarge`: it needs more memory than there is. */
  ended(slot: Slot, end: SlotEnd, tooLarge: TooLarge | undefined): Promise<void>;
  /** It can never run on this machine. */
  refused(index: number, why: string): void;
  halting(): Halting;
  /** Nothing runs, and nothing is going to. */
  isOver(): boolean;
}

export interface TooLarge {
  readonly usedBytes: number;
  readonly limitBytes: number;
}

export interface RunnerOptions {
  readonly source: TaskSource;
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

interface Running {
  readonly slot: Slot;
  readonly needs: TaskNeeds;
  usedBytes: number;
  tooLarge?: TooLarge;
}

export class Runner {
  readonly #options: RunnerOptions;
  readonly #admission: Admission;
  readonly #guard = new MemoryGuard();
  readonly #running = new Map<number, Running>();
  readonly #changes = new Changes();
  readonly #lookEveryMs: number;
  /** When what the tasks use was read last. */
  #measuredMs = -Infinity;
  /** Of those that began lately: the load average does not know them yet. */
  #startedMs: number[] = [];
  #isHeld = false;
  #pushed: Push | undefined;
  /** A notice stands: the machine goes. */
  #isNoticed = false;
  #hasSaidFewer = false;
  /** What the source threw. */
  #failure: { readonly error: unknown } | undefined;

  constructor(options: RunnerOptions) {
    this.#options = options;
    const { jobs, machine, lookEveryMs = LOOK_EVERY_MS } = options;
    this.#lookEveryMs = lookEveryMs;
    this.#admission = new Admission({ jobs, cores: machine.cores, memoryBytes: machine.memoryBytes });
  }

  /** Those that run, the oldest first. */
  running(): readonly RunningTask[] {
    return [...this.#running.values()].map(({ slot, needs, usedBytes }) => ({
      index: slot.index,
      startedMs: slot.startedMs,
      needs,
      usedBytes,
      isEnding: slot.isEnding,
    }));
  }

  /** Resolves when nothing runs and nothing is going to, be it because of a notice. */
  async run(): Promise<void> {
    const { source, machine } = this.#options;
    for (;;) {
      // What changes from here on ends the wait below.
      const woken = new AbortController();
      const changed = this.#changes.next(woken.signal);
      const now = machine.now();
      this.#look(now);
      if (source.halting() === 'now') this.push('again');
      await this.#startSome(now);
      // What runs must end well: what it works in is removed next.
      if (this.#failure !== undefined) this.push('again');
      const isLast = source.isOver() || this.#isNoticed || this.#failure !== undefined;
      const isOver = isLast && this.#running.size === 0;
      const isNear = now.availableBytes < NEAR * shortBytes(machine.memoryBytes);
      const pauseMs = isNear ? this.#lookEveryMs / NEAR : this.#lookEveryMs;
      if (!isOver) await Promise.race([changed, sleep(pauseMs, undefined, woken).catch(() => undefined)]);
      woken.abort();
      if (isOver && this.#failure !== undefined) throw this.#failure.error;
      if (isOver) return;
    }
  }

  /** Tells all that run to end, harder than before or not at all. */
  push(how: Push): void {
    if (ORDER.indexOf(how) <= ORDER.indexOf(this.#pushed ?? 'none')) return;
    this.#pushed = how;
    for (const { slot } of this.#running.values()) slot.end(how);
    this.#changes.notify();
  }

  /** A notice that the machine goes, of which each task hears by itself, or that it stays after all. */
  noticed(isNoticed: boolean): void {
    this.#isNoticed = isNoticed;
    if (isNoticed) for (const { slot } of this.#running.values()) slot.noticed();
    this.#changes.notify();
  }

  /** The source may have a task that it did not have before. */
  wake(): void {
    this.#changes.notify();
  }

  /** Passes a signal on to every task. */
  signal(signal: NodeJS.Signals): void {
    for (const { slot } of this.#running.values()) slot.signal(signal);
  }

  #look({ availableBytes, psiFullPercent }: MachineNow): void {
    this.#measure(this.#usefulMs());
    const limitBytes = this.#options.machine.memoryBytes;
    const moment = { nowMs: clockMs(), availableBytes, limitBytes, psiFullPercent };
    const verdict = this.#guard.look(moment, this.running());
    this.#isHeld = verdict.kind !== 'calm';
    if (verdict.kind === 'calm' || verdict.kind === 'hold') return;
    const one = this.#running.get(verdict.index);
    if (one === undefined) return;
    if (verdict.kind === 'too-large') one.tooLarge = verdict;
    else
      this.#options.log.warn(
        `memory runs short (${formatBytes(availableBytes)} left): ${this.#options.source.nameOf(verdict.index)} ends, and goes on later`,
      );
    one.slot.end('again');
  }

  /** Reads what each task uses, unless that was done less than so long ago. */
  #measure(ageMs: number): void {
    const nowMs = clockMs();
    if (nowMs < this.#measuredMs + ageMs) return;
    this.#measuredMs = nowMs;
    for (const one of this.#running.values()) one.usedBytes = one.slot.usedBytes();
  }

  /**
   * How long such figures are good for. The guard asks what a task uses only if it is the last one; while peaks are to be
   * learned, what is not seen is not known.
   */
  #usefulMs(): number {
    if (this.#running.size === 1) return 0;
    const isLearned =
      this.#admission.hasLearned() ||
      [...this.#running.values()].every(({ needs }) => needs.memoryBytes !== undefined);
    return isLearned ? SELDOM * this.#lookEveryMs : this.#lookEveryMs;
  }

  async #startSome(now: MachineNow): Promise<void> {
    const { source } = this.#options;
    for (;;) {
      if (this.#mayNotStart(now)) return;
      const next = source.next((needs) => this.#ask({ needs }, now).kind === 'start');
      if (next === undefined) return;
      const verdict = this.#ask(next, now);
      if (verdict.kind === 'wait') {
        this.#sayFewer(verdict.why, next.needs);
        return;
      }
      if (verdict.kind === 'never') source.refused(next.index, neverFits(verdict));
      else await this.#start(next);
    }
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

  #mayNotStart({ load }: MachineNow): boolean {
    const { source, maxLoad } = this.#options;
    if (source.halting() !== 'no' || this.#isNoticed || this.#failure !== undefined) return true;
    // Others use this machine, too: what they take must not hold us up for ever.
    if (this.#running.size === 0) return false;
    if (this.#isHeld) return true;
    if (maxLoad === undefined) return false;
    return isTooBusy(maxLoad, { average1m: load, startedMs: this.#startedMs, nowMs: clockMs() });
  }

  #ask({ needs }: Pick<NextTask, 'needs'>, { availableBytes }: MachineNow): AdmissionVerdict {
    const ask = (): AdmissionVerdict =>
      this.#admission.ask(needs, { nowMs: clockMs(), availableBytes, running: this.running() });
    const verdict = ask();
    if (verdict.kind === 'never' || (verdict.kind === 'wait' && NOT_BY_MEMORY.has(verdict.why)))
      return verdict;
    this.#measure(this.#lookEveryMs);
    return ask();
  }

  async #start({ index, needs }: NextTask): Promise<void> {
    const { source } = this.#options;
    const slot = await source.start(index);
    const one: Running = { slot, needs, usedBytes: 0 };
    this.#running.set(index, one);
    this.#startedMs = [...this.#startedMs.slice(-MOST_STARTS), slot.startedMs];
    // Told while it was being started.
    if (this.#pushed !== undefined) slot.end(this.#pushed);
    if (this.#isNoticed) slot.noticed();
    void this.#end(one).catch((error: unknown) => {
      this.#failure ??= { error };
      this.#changes.notify();
    });
  }

  async #end(one: Running): Promise<void> {
    const { slot } = one;
    const end = await slot.ended;
    if (end.kind === 'done') this.#admission.ended(end.peakBytes);
    try {
      await this.#options.source.ended(slot, end, one.tooLarge);
    } finally {
      this.#running.delete(slot.index);
      this.#changes.notify();
    }
  }
}

/** Whatever the tasks use, no other may start. */
const NOT_BY_MEMORY: ReadonlySet<string> = new Set(['jobs', 'cores']);
const ORDER: readonly (Push | 'none')[] = ['none', 'again', 'faster', 'kill'];
/** Of the last minutes: more do not start in that time. */
const MOST_STARTS = 1000;

/** Of what these needs are too much on this machine; undefined: it can run. */
export function whyNever(needs: TaskNeeds, { cores, memoryBytes }: ThisMachine): string | undefined {
  const alone = { nowMs: 0, availableBytes: Infinity, running: [] };
  const verdict = new Admission({ jobs: 1, cores, memoryBytes }).ask(needs, alone);
  return verdict.kind === 'never' ? neverFits(verdict) : undefined;
}

function neverFits({ what, needs, has }: Extract<AdmissionVerdict, { kind: 'never' }>): string {
  return what === 'cores'
    ? `it needs ${needs} cores (--cpus), and this machine has ${has}`
    : `it needs ${formatBytes(needs)} of memory (--memory), and this machine has ${formatBytes(has)} for tasks`;
}
