// What processes use, as /proc says: CPU time, memory, input and output, of all that belong to the task and of capture
// itself. A look reads some small files of each process, and keeps none open.
import { addTree, type ProcessFacts } from './proc-reader.ts';
import { processesWithEnvironment, readProc, readStat, startsElsewhere } from './processes.ts';

/** Counted since a process began, for it and for the children that it has waited for. */
interface Counts {
  readonly cpuS: number;
  /** Through read(2) and write(2), whatever from and to; 0 where the kernel does not tell (proc_pid_io(5)). */
  readonly readBytes: number;
  readonly writtenBytes: number;
}

export interface Memory {
  /**
   * Resident now: of each process what it has alone, and of what may be shared (files, shared memory) as much as the
   * process with most of it has.
   */
  readonly bytes: number;
  /** The same with one of them at its highest since the last look (proc_pid_status(5), VmHWM). */
  readonly peakBytes: number;
}

/** What the task has used since the first look, and holds now. */
export interface TaskUse extends Counts {
  readonly memory: Memory;
}

interface TaskProcesses {
  /** All processes of the task descend from this one, or carry {@link token}. */
  readonly launcher: number;
  /** The sidecar: it and what it starts are no part of the task. */
  readonly self: number;
  /** The value of CAPTURED_RUN: what a daemon starts for the task has it in its environment. */
  readonly token: string;
}

/** A process at the last look. */
interface Known extends Counts {
  /** Its parent, which will have waited for it, is a process of the task or the launcher. */
  readonly hasParent: boolean;
}

export class TaskUseReader {
  readonly #task: TaskProcesses;
  readonly #memory = new MemoryReader();
  #known: ReadonlyMap<number, Known> = new Map();
  /** Of processes that have ended below a daemon. */
  #ended: Counts = NOTHING;
  #before: Counts | undefined;

  constructor(task: TaskProcesses) {
    this.#task = task;
  }

  /** Undefined when the launcher is gone. */
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
    // Of the launcher only what it has waited for; of its input and output it has next to none while the task runs.
    const ofRoot = { ...countsOf(launcher, root), cpuS: root.waitedCpuS };
    const all = sum([ofRoot, this.#ended, ...known.values()]);
    this.#before ??= all;
    return { ...difference(all, this.#before), memory: this.#memory.read([...known.keys()]) };
  }

  /** The launcher, its descendants, and what daemons have started for them. */
  #processes(): Map<number, ProcessFacts> {
    const { launcher, self, token } = this.#task;
    const found = new Map<number, ProcessFacts>();
    addTree(found, launcher, self);
    if ([...found.values()].some(({ name }) => startsElsewhere(name)))
      for (const pid of processesWithEnvironment(`CAPTURED_RUN=${token}`)) addTree(found, pid, self);
    return found;
  }
}

export class MemoryReader {
  /** By process the highest that was seen. */
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

/** CPU time of a process alone, s; 0 when it is gone. */
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

/** `VmHWM:	   1234 kB` as bytes; 0 of a process that has no memory any more. */
function field(status: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0) * 1024;
}
