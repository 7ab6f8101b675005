// A process as the kernel knows it: descriptors, parent, and how it ended. What it computes is elsewhere: the sidecar is
// the real code, a task is a list of steps.
import type { Description } from './description.ts';

export interface ProcessOptions {
  readonly pid: number;
  readonly parent: SimProcess | undefined;
  /** proc_pid_comm(5) */
  readonly name: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly startMs: number;
}

export class SimProcess {
  readonly pid: number;
  parent: SimProcess | undefined;
  readonly name: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly startMs: number;
  readonly children = new Set<SimProcess>();
  readonly descriptors = new Map<number, Description>();
  /** It runs no code any more. */
  isAlive = true;
  /** It is dying: files are being closed. */
  isExiting = false;
  /** Nobody has waited for it. */
  isZombie = false;
  /** Of children that it has waited for (cminflt). */
  childFaults = 0;
  /** As wait(2) gives it. */
  status = 0;
  /** It gets no CPU before. */
  stalledUntilMs = 0;
  /** It dies at the system call with this number, from now. */
  callsLeft = Infinity;
  isSubreaper = false;
  onSignal: ((signal: string) => void) | undefined;
  readonly onDeath = new Set<() => void>();
  /** Its first thread's name of the work directory, for relative paths. */
  cwd = '/';

  constructor({ pid, parent, name, environment, startMs }: ProcessOptions) {
    this.pid = pid;
    this.parent = parent;
    this.name = name;
    this.environment = environment;
    this.startMs = startMs;
    parent?.children.add(this);
  }

  /** The lowest number that is free, as open(2) has it. */
  freeDescriptor(): number {
    for (let fd = 3; ; fd += 1) if (!this.descriptors.has(fd)) return fd;
  }
}

/** What code of a process that has died meets at its next system call. It must have no effect any more. */
export class Dead extends Error {
  constructor() {
    super('this process has died');
    this.name = 'Dead';
  }
}
