// What processes use, from /proc: CPU time, memory, input and output, for all processes of the task and for capture
// itself. Each look reads a few small files for each process, and keeps none open.
import { addTree, type ProcessFacts } from './proc-reader.ts';
import { processesWithEnvironment, readProc, readStat, startsElsewhere } from './processes.ts';

/** Counted since a process began, for it and the children that it has waited for. */
interface Counts {
  readonly cpuS: number;
  /** Through read(2) and write(2), from and to anything; 0 if the kernel does not say (proc_pid_io(5)). */
  readonly readBytes: number;
  readonly writtenBytes: number;
}

export interface Memory {
  /**
   * Resident now: the private memory of each process, and the shared memory (of files too) of the process with most of
   * it.
   */
  readonly bytes: number;
  /** The same, with one process at its highest since the last look (proc_pid_status(5), VmHWM). */
  readonly peakBytes: number;
}

/** What the task has used since the first look, and the memory that it has now. */
export interface TaskUse extends Counts {
  readonly memory: Memory;
}

interface TaskProcesses {
  /** All processes of the task descend from this one, or carry {@link token}. */
  readonly launcher: number;
  /** The sidecar: it and its descendants do not belong to the task. */
  readonly self: number;
  /** The value of CAPTURED_RUN: processes that a daemon starts for the task have it in their environment. */
  readonly token: string;
}

/** A process at the last look. */
interface Known extends Counts {
  /** True if its parent is the launcher or a process of the task, which will have waited for it. */
  readonly hasParent: boolean;
}

export class TaskUseReader {
  readonly #task: TaskProcesses;
  readonly #memory = new MemoryReader();
  #known: ReadonlyMap<number, Known> = new Map();
  /** Of ended processes whose parent was a daemon. */
  #ended: Counts = NOTHING;
  #before: Counts | undefined;

  constructor(task: TaskProcesses) {
    this.#task = task;
  }

  /** Undefined if the launcher is gone. */
  read(): TaskUse | undefined {
    const { launcher } = this.#task;
    const facts = this.#processes();
    const root = facts.get(launcher);
    if (root === undefined) return undefined;
    facts.delete(launcher);
    const known = new Map<number, Known>();
    for (const [pid, one] of facts) {
      const hasParent = one.parent === launcher || facts.has(one.parent);
      known.set(pid, { ...countsOf(pid, one), hasParent });
    }
    for (const [pid, { hasParent, ...counts }] of this.#known)
      if (!hasParent && !known.has(pid)) this.#ended = sum([this.#ended, counts]);
    this.#known = known;
    // Only what the launcher has waited for, not its own CPU time. Its own input and output are next to nothing while
    // the task runs.
    const ofRoot = { ...countsOf(launcher, root), cpuS: root.waitedCpuS };
    const all = sum([ofRoot, this.#ended, ...known.values()]);
    this.#before ??= all;
    return { ...difference(all, this.#before), memory: this.#memory.read([...known.keys()]) };
  }

  /** The launcher, its descendants, and what daemons have started for them. */
  #processes(): Map<number, ProcessFacts> {
    const { launcher, self, token } = this.#task;
    const found = new Map<number, ProcessFacts>();
    const without = new Set([self]);
    addTree(found, launcher, without);
    if ([...found.values()].some(({ name }) => startsElsewhere(name)))
      for (const pid of processesWithEnvironment(`CAPTURED_RUN=${token}`)) addTree(found, pid, without);
    return found;
  }
}

export class MemoryReader {
  /** The highest VmHWM seen, by process. */
  #highest: ReadonlyMap<number, number> = new Map();

  read(pids: readonly number[]): Memory {
    const highest = new Map<number, number>();
    let own = 0;
    let shared = 0;
    let risen = 0;
    for (const pid of pids) {
      const status = readProc(pid, 'status');
      if (status === undefined) continue;
      own += field(status, 'RssAnon');
      shared = Math.max(shared, field(status, 'RssFile') + field(status, 'RssShmem'));
      const high = field(status, 'VmHWM');
      highest.set(pid, high);
      if (high > (this.#highest.get(pid) ?? 0)) risen = Math.max(risen, high - field(status, 'VmRSS'));
    }
    this.#highest = highest;
    const bytes = own + shared;
    return { bytes, peakBytes: bytes + risen };
  }
}

/** CPU time of a process without its children, s; 0 if it is gone. */
export function cpuOf(pid: number): number {
  return readStat(pid)?.cpuS ?? 0;
}

const NOTHING: Counts = { cpuS: 0, readBytes: 0, writtenBytes: 0 };

function countsOf(pid: number, { cpuS, waitedCpuS }: ProcessFacts): Counts {
  const io = readProc(pid, 'io') ?? '';
  const count = (name: string): number => Number(new RegExp(`^${name}: (\\d+)$`, 'm').exec(io)?.[1] ?? 0);
  return { cpuS: cpuS + waitedCpuS, readBytes: count('rchar'), writtenBytes: count('wchar') };
}

function sum(all: readonly Counts[]): Counts {
  const total = { ...NOTHING };
  for (const { cpuS, readBytes, writtenBytes } of all) {
    total.cpuS += cpuS;
    total.readBytes += readBytes;
    total.writtenBytes += writtenBytes;
  }
  return total;
}

function difference(now: Counts, before: Counts): Counts {
  return {
    cpuS: now.cpuS - before.cpuS,
    readBytes: now.readBytes - before.readBytes,
    writtenBytes: now.writtenBytes - before.writtenBytes,
  };
}

/** `VmHWM:	   1234 kB` as bytes; 0 if the process has no memory any more. */
function field(status: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0) * 1024;
}
