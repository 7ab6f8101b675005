// May one more task start on this machine, by jobs, cores and memory? The sum promised to tasks never exceeds the
// machine's limits, except for a task that runs alone. In memory only; times are arguments.
import { formatBytes } from '../units.ts';

/** The resources of the machine, for all tasks of this runner. */
export interface Machine {
  /** `--jobs`; Infinity: as many as fit. */
  readonly jobs: number;
  /** Of the cgroup, if it has fewer than the host. */
  readonly cores: number;
  /** Of the cgroup, if it has less than the host. */
  readonly memoryBytes: number;
}

/** The declared needs of one task. */
export interface TaskNeeds {
  /** `--cpus`. */
  readonly cores: number;
  /** `--memory`; undefined: estimated from other tasks. */
  readonly memoryBytes: number | undefined;
}

/** A running task. */
export interface RunningTask {
  readonly startedMs: number;
  readonly needs: TaskNeeds;
  /** Last measured memory of all its processes. */
  readonly usedBytes: number;
  /** The runner has told it to checkpoint and end. */
  readonly isEnding: boolean;
}

/** The state of the machine at one moment. */
export interface MachineState {
  readonly nowMs: number;
  /** Available memory, whoever uses the rest. */
  readonly availableBytes: number;
  readonly running: readonly RunningTask[];
}

export type AdmissionVerdict =
  | { readonly kind: 'start' }
  /** Ask again when a task ends, when more memory is available, and at `untilMs`. */
  | {
      readonly kind: 'wait';
      /** `learning`: the memory that such tasks need is not known yet. */
      readonly why: 'jobs' | 'cores' | 'memory' | 'learning';
      readonly untilMs: number | undefined;
    }
  /** It never fits here: it needs more (`needs`, in cores or bytes) than this machine has for tasks. */
  | {
      readonly kind: 'never';
      readonly what: 'cores' | 'memory';
      readonly needs: number;
      readonly has: number;
    };

/** The runner and its sidecar (docs/dev/performance/arrays.md), with room for pushes in progress. */
const SIDECAR_BYTES = 128 * 2 ** 20;
/** The launcher of one task, and its state in the sidecar. */
const LAUNCHER_BYTES = 15 * 2 ** 20;
/** By then most programs have reached their memory use, or grow slowly enough for the guard. */
const KNOWN_AFTER_MS = 10_000;
/** So that 0.1 + 0.2 cores fit into 0.3. */
const CORES_EPSILON = 1e-9;

/** The memory that is reserved for capture itself while this many tasks run. */
export function captureBytes(tasks: number): number {
  return SIDECAR_BYTES + tasks * LAUNCHER_BYTES;
}

/** Memory runs short below this: it is never promised to tasks, and below it one task must go (`guard.ts`). */
export function lowMemoryBytes(limitBytes: number): number {
  return Math.min(4 * 2 ** 30, Math.max(64 * 2 ** 20, limitBytes / 20));
}

export class Admission {
  readonly #machine: Machine;
  #largestPeakBytes: number | undefined;
  /** One task without `--memory` has run from beginning to end. */
  #isPeakWhole = false;

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  /** A task without `--memory` ran to its end: its peak is that of a whole run. */
  ended(peakBytes: number): void {
    this.#saw(peakBytes);
    this.#isPeakWhole = true;
  }

  /** True if a task without `--memory` has run from beginning to end. */
  hasLearned(): boolean {
    return this.#isPeakWhole;
  }

  /** The estimate for a task without `--memory`: the largest peak so far plus a fifth; undefined: none is known. */
  learnedBytes(): number | undefined {
    return this.#largestPeakBytes === undefined ? undefined : Math.ceil(this.#largestPeakBytes * 1.2);
  }

  /** May a task with these needs start now? Ask for one task at a time: the next call must list it as running. */
  ask(needs: TaskNeeds, moment: MachineState): AdmissionVerdict {
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
    // A learned need is only an estimate: such a task is tried alone.
    if (memoryBytes !== undefined && memoryBytes > hasBytes)
      return { kind: 'never', what: 'memory', needs: memoryBytes, has: hasBytes };
    return undefined;
  }

  /** With a quota of half a core, a task of one core runs too, only slower. */
  #cores(): number {
    return Math.max(1, this.#machine.cores);
  }

  /** The memory for all tasks together, if this many run. */
  #forTasksBytes(tasks: number): number {
    const { memoryBytes } = this.#machine;
    return Math.max(0, memoryBytes - captureBytes(tasks) - lowMemoryBytes(memoryBytes));
  }

  #hasMemory(needs: TaskNeeds, { availableBytes, running }: MachineState): boolean {
    const promised = running.map((task) => this.#promisedBytes(task));
    const needBytes = this.#needBytes(needs);
    const wholeBytes = promised.reduce((sum, bytes) => sum + bytes, needBytes);
    // Other programs use this machine too, so less memory may be available than is unpromised.
    const growthBytes = running.reduce(
      (sum, task, at) => sum + Math.max(0, (promised[at] ?? 0) - task.usedBytes),
      needBytes + LAUNCHER_BYTES,
    );
    return (
      wholeBytes <= this.#forTasksBytes(running.length + 1) &&
      growthBytes <= availableBytes - lowMemoryBytes(this.#machine.memoryBytes)
    );
  }

  /** A task that is ending grows no more. */
  #promisedBytes({ needs, usedBytes, isEnding }: RunningTask): number {
    return isEnding ? usedBytes : Math.max(usedBytes, this.#needBytes(needs));
  }

  #needBytes({ memoryBytes }: TaskNeeds): number {
    return memoryBytes ?? this.learnedBytes() ?? 0;
  }

  /**
   * Until a task has ended, at most as many tasks run with unknown needs as with known ones. So their number doubles
   * every 10 s, and the first one runs alone. Undefined: another one may start.
   */
  #learningUntilMs({ nowMs, running }: MachineState): number | undefined {
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

/** How many of these tasks an idle machine runs at once, at least 1, and what sets the limit. */
export function mostAtOnce(
  { cores, memoryBytes }: TaskNeeds,
  machine: Machine,
): { readonly tasks: number; readonly by: 'jobs' | 'cores' | 'memory' } {
  const byCores = Math.floor(Math.max(1, machine.cores) / cores + CORES_EPSILON);
  const forAllBytes = machine.memoryBytes - captureBytes(0) - lowMemoryBytes(machine.memoryBytes);
  const byMemory =
    memoryBytes === undefined ? Infinity : Math.floor(forAllBytes / (memoryBytes + LAUNCHER_BYTES));
  const tasks = Math.max(1, Math.min(machine.jobs, byCores, byMemory));
  if (tasks === machine.jobs) return { tasks, by: 'jobs' };
  return { tasks, by: byCores <= byMemory ? 'cores' : 'memory' };
}

/** Why these needs exceed this machine even when it is idle; undefined: they do not. */
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

/** The decay time of the kernel's load average (kernel/sched/loadavg.c). */
const AVERAGE_OVER_MS = 60_000;

/**
 * `--max-load`: true if the load has reached `maxLoad`, so no task may start. The kernel's one-minute average lags
 * behind (proc(5), /proc/loadavg): it counts only 63 % of a process that began a minute ago. The missing load of the
 * running tasks (by `startedMs`) is added; otherwise all tasks would start at once on an idle machine.
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
