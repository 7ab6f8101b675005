// A process as the kernel knows it: descriptors, parent, and how it ended. What it runs is elsewhere: the sidecar is
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
  /** False once it runs no code any more. */
  isAlive = true;
  /** True while it is dying, and its files are being closed. */
  isExiting = false;
  /** True until its parent waits for it. */
  isZombie = false;
  /** Page faults of children that it has waited for (cminflt). */
  childFaults = 0;
  /** The status of wait(2). */
  status = 0;
  /** It gets no CPU before this instant. */
  stalledUntilMs = 0;
  /** It dies at this system call from now. */
  callsLeft = Infinity;
  isSubreaper = false;
  onSignal: ((signal: string) => void) | undefined;
  readonly onDeath = new Set<() => void>();
  /** The path of the current directory, for relative paths. */
  cwd = '/';

  constructor({ pid, parent, name, environment, startMs }: ProcessOptions) {
    this.pid = pid;
    this.parent = parent;
    this.name = name;
    this.environment = environment;
    this.startMs = startMs;
    parent?.children.add(this);
  }

  /** The lowest free number, as for open(2). */
  freeDescriptor(): number {
    for (let fd = 3; ; fd += 1) if (!this.descriptors.has(fd)) return fd;
  }
}

/** Thrown by the next system call of a process that has died. The code must have no effect any more. */
export class Dead extends Error {
  constructor() {
    super('this process has died');
    this.name = 'Dead';
  }
}
