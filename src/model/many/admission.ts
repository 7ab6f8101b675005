// May one more task start on this machine, by jobs, cores and memory? What is promised to tasks never exceeds the
// machine's limits, but for one that runs alone. Memory only; times are arguments.
import { formatBytes } from '../units.ts';

/** What the machine has, for all tasks of this runner. */
export interface Machine {
  /** `--jobs`; Infinity: as many as fit. */
  readonly jobs: number;
  /** Of the cgroup, where it has fewer than the host. */
  readonly cores: number;
  /** Of the cgroup, where it has less than the host. */
  readonly memoryBytes: number;
}

/** What one task is said to need. */
export interface TaskNeeds {
  /** `--cpus`. */
  readonly cores: number;
  /** `--memory`; undefined: as the others did. */
  readonly memoryBytes: number | undefined;
}

/** A task that runs. */
export interface RunningTask {
  readonly startedMs: number;
  readonly needs: TaskNeeds;
  /** Memory of all its processes, as measured last. */
  readonly usedBytes: number;
  /** It was told to checkpoint and end. */
  readonly isEnding: boolean;
}

/** The machine at one moment. */
export interface Moment {
  readonly nowMs: number;
  /** What is left of its memory, whoever uses the rest. */
  readonly availableBytes: number;
  readonly running: readonly RunningTask[];
}

export type AdmissionVerdict =
  | { readonly kind: 'start' }
  /** Ask again when a task ends, when the machine has more memory left, and at `untilMs`. */
  | {
      readonly kind: 'wait';
      /** `learning`: how much memory such tasks need is not known yet. */
      readonly why: 'jobs' | 'cores' | 'memory' | 'learning';
      readonly untilMs: number | undefined;
    }
  /** It never fits here: it `needs` more (cores, or bytes) than the tasks of this machine can have. */
  | {
      readonly kind: 'never';
      readonly what: 'cores' | 'memory';
      readonly needs: number;
      readonly has: number;
    };

/** The runner and its sidecar (docs/performance.md), with room for what is on its way to the store. */
const SIDECAR_BYTES = 128 * 2 ** 20;
/** The launcher of one task, and its state in the sidecar. */
const LAUNCHER_BYTES = 15 * 2 ** 20;
/** Most programs have what they need by then, or grow slowly enough for the guard. */
const KNOWN_AFTER_MS = 10_000;
/** 0.1 + 0.2 cores are 0.3. */
const CORES_EPSILON = 1e-9;

/** How much of the machine's memory is kept for capture itself when so many tasks run. */
export function ownBytes(tasks: number): number {
  return SIDECAR_BYTES + tasks * LAUNCHER_BYTES;
}

/** With less than this left memory runs short: tasks are never promised it, and below it one goes (`guard.ts`). */
export function shortBytes(limitBytes: number): number {
  return Math.min(4 * 2 ** 30, Math.max(64 * 2 ** 20, limitBytes / 20));
}

export class Admission {
  readonly #machine: Machine;
  #largestPeakBytes: number | undefined;
  /** One has run from its beginning to its end. */
  #isPeakWhole = false;

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  /** A task without `--memory` ran to its end: its peak is that of a whole run. */
  ended(peakBytes: number): void {
    this.#saw(peakBytes);
    this.#isPeakWhole = true;
  }

  /** Has a task without `--memory` run from its beginning to its end? */
  hasLearned(): boolean {
    return this.#isPeakWhole;
  }

  /** What a task without `--memory` is taken to need: the largest peak so far and a fifth; undefined: none is known. */
  learnedBytes(): number | undefined {
    return this.#largestPeakBytes === undefined ? undefined : Math.ceil(this.#largestPeakBytes * 1.2);
  }

  /** May a task with these needs start now? One at a time: the next question must know of it as running. */
  ask(needs: TaskNeeds, moment: Moment): AdmissionVerdict {
    const { running } = moment;
    for (const task of running) if (task.needs.memoryBytes === undefined) this.#saw(task.usedBytes);
    const never = this.#never(needs);
    if (never !== undefined) return never;
    if (running.length === 0) return { kind: 'start' };
    if (running.length >= this.#machine.jobs) return waitFor('jobs');
    const busyCores = running.reduce((sum, task) => sum + task.needs.cores, 0);
    if (busyCores + needs.cores > this.#cores() + CORES_EPSILON) return waitFor('cores');
    if (needs.memoryBytes === undefined) {
      const untilMs = this.#learningUntilMs(moment);
      if (untilMs !== undefined) return { kind: 'wait', why: 'learning', untilMs };
    }
    return this.#hasMemory(needs, moment) ? { kind: 'start' } : waitFor('memory');
  }

  #saw(peakBytes: number): void {
    if (peakBytes > 0) this.#largestPeakBytes = Math.max(this.#largestPeakBytes ?? 0, peakBytes);
  }

  #never(needs: TaskNeeds): AdmissionVerdict | undefined {
    const hasCores = this.#cores();
    if (needs.cores > hasCores + CORES_EPSILON)
      return { kind: 'never', what: 'cores', needs: needs.cores, has: hasCores };
    const { memoryBytes } = needs;
    const hasBytes = this.#forTasksBytes(1);
    // What was learned is a guess: then it is tried alone.
    if (memoryBytes !== undefined && memoryBytes > hasBytes)
      return { kind: 'never', what: 'memory', needs: memoryBytes, has: hasBytes };
    return undefined;
  }

  /** A quota of half a core runs a task of one, only slower. */
  #cores(): number {
    return Math.max(1, this.#machine.cores);
  }

  /** What so many tasks may have in all. */
  #forTasksBytes(tasks: number): number {
    const { memoryBytes } = this.#machine;
    return Math.max(0, memoryBytes - ownBytes(tasks) - shortBytes(memoryBytes));
  }

  #hasMemory(needs: TaskNeeds, { availableBytes, running }: Moment): boolean {
    const promised = running.map((task) => this.#promisedBytes(task));
    const needBytes = this.#needBytes(needs);
    const wholeBytes = promised.reduce((sum, bytes) => sum + bytes, needBytes);
    // What is left may be less than what is free of promises: others use this machine, too.
    const growthBytes = running.reduce(
      (sum, task, at) => sum + Math.max(0, (promised[at] ?? 0) - task.usedBytes),
      needBytes + LAUNCHER_BYTES,
    );
    return (
      wholeBytes <= this.#forTasksBytes(running.length + 1) &&
      growthBytes <= availableBytes - shortBytes(this.#machine.memoryBytes)
    );
  }

  /** One that ends grows no more. */
  #promisedBytes({ needs, usedBytes, isEnding }: RunningTask): number {
    return isEnding ? usedBytes : Math.max(usedBytes, this.#needBytes(needs));
  }

  #needBytes({ memoryBytes }: TaskNeeds): number {
    return memoryBytes ?? this.learnedBytes() ?? 0;
  }

  /**
   * As long as no task has ended, only as many run unknown as are known, which doubles them every 10 s: the first does
   * so alone. Undefined: another one may.
   */
  #learningUntilMs({ nowMs, running }: Moment): number | undefined {
    if (this.#isPeakWhole) return undefined;
    const startsMs = running
      .filter(({ needs }) => needs.memoryBytes === undefined)
      .map((task) => task.startedMs);
    const unknown = startsMs.filter((startedMs) => nowMs < startedMs + KNOWN_AFTER_MS);
    if (unknown.length < Math.max(1, startsMs.length - unknown.length)) return undefined;
    return Math.min(...unknown) + KNOWN_AFTER_MS;
  }
}

function waitFor(why: 'jobs' | 'cores' | 'memory'): AdmissionVerdict {
  return { kind: 'wait', why, untilMs: undefined };
}

/** Why these needs are too much for this machine, however idle it is; undefined: they are not. */
export function whyNever(
  needs: TaskNeeds,
  { cores, memoryBytes }: Omit<Machine, 'jobs'>,
): string | undefined {
  const alone = { nowMs: 0, availableBytes: Infinity, running: [] };
  const verdict = new Admission({ jobs: 1, cores, memoryBytes }).ask(needs, alone);
  if (verdict.kind !== 'never') return undefined;
  const { what, needs: needed, has } = verdict;
  return what === 'cores'
    ? `it needs ${needed} cores (--cpus), and this machine has ${has}`
    : `it needs ${formatBytes(needed)} of memory (--memory), and this machine has ${formatBytes(has)} for tasks`;
}

/** The kernel's average decays with this time (kernel/sched/loadavg.c). */
const AVERAGE_OVER_MS = 60_000;

/**
 * `--max-load`: true if no task may start, since the load has reached `maxLoad`. The kernel's average of one minute lags behind
 * (proc(5), /proc/loadavg): of a process that began a minute ago it knows 63 %. What it does not know yet of the tasks
 * that run, since `startedMs`, is added; or all of them would start at once on a machine that was idle.
 */
export function isTooBusy(
  maxLoad: number,
  load: { readonly average1m: number; readonly startedMs: readonly number[]; readonly nowMs: number },
): boolean {
  const { average1m, startedMs, nowMs } = load;
  const unknown = startedMs.reduce(
    (sum, at) => sum + Math.exp(-Math.max(0, nowMs - at) / AVERAGE_OVER_MS),
    0,
  );
  return average1m + unknown >= maxLoad;
}
