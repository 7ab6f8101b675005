// Looks at the task's processes after closes were read, and says whether one of them died: one look for all closes that
// were read together. It watches no other processes, and never claims to have seen what it could not see.
import {
  evidenceOf,
  hasChanged,
  NO_PROCESSES,
  type Evidence,
  type ProcessTable,
  type ProcessSeen,
} from '../model/file/evidence.ts';
import { ProcReader } from '../native/proc-reader.ts';
import {
  isHidden,
  lifeOf,
  processesWithEnvironment,
  type ProcessStat,
  startsElsewhere,
} from '../native/processes.ts';
import { DueLooks } from './due-looks.ts';

/**
 * The bit of SIGCHLD (17) in a signal mask. A process that ignores SIGCHLD keeps no count of its children that ended.
 */
const SIGCHLD_BIT = 1 << 16;
/**
 * Closes that follow from a death may come this long after it: a shell closes its own `> file`, and the kernel's
 * workers finish what io_uring(7) had open.
 */
const AFTER_DEATH_MS = 1000;
/** A process that was listed as a child, and that its parent had waited for before it was looked at. */
const GONE: ProcessSeen = { startTicks: -1, life: 'dead', reaped: 0 };
/** Looks take at most 1/50 of the time. */
const SHARE = 50;
/** Closes wait at most this long for a look that they share. */
const MOST_PAUSE_MS = 250;

export interface Witness {
  /** Looks now, and returns the evidence for the closes that were read since the last look. */
  judge(): Evidence;
  /** When the next look is due, as `performance.now()`. More closes may be collected until then. */
  readonly nextMs: number;
  /**
   * From now on calls `look` when one is due without a close, so that an old death does not cast doubt on a later
   * close.
   */
  whenDue(look: () => void): void;
  /**
   * True if no process of the task has died between the start of the attempt and this instant (`performance.now()`).
   * False if that is unknown: without {@link WitnessOptions.launcherFaults}, or if no look was taken since that
   * instant.
   */
  nobodyDiedUntil(atMs: number): boolean;
  /** The task's processes at the last look. */
  pids(): readonly number[];
  close(): void;
}

interface TaskProcesses {
  /** Every process of the task descends from this one, or carries {@link token}. */
  readonly launcher: number;
  /** This process: it and the processes that it starts are not part of the task. */
  readonly self: number;
  /** The value of CAPTURED_RUN. It is in the environment of processes that a daemon starts for the task. */
  readonly token: string;
}

/** `launcher` undefined: somebody else runs the task, and nobody knows which processes belong to it. */
export type WitnessOptions = Omit<TaskProcesses, 'launcher'> & {
  readonly launcher: number | undefined;
  /** As in the message `start`: what is known about deaths before the first look. */
  readonly launcherFaults?: number | undefined;
};

/** Takes the first look. Undefined if it is impossible to see which process closes a file. */
export function openWitness(options: WitnessOptions, now = () => performance.now()): Witness | undefined {
  const { launcher } = options;
  if (launcher === undefined) return undefined;
  const task = { ...options, launcher };
  const reader = new ProcReader();
  const own = reader.read(task.self);
  // An emulated kernel knows no process flags: on Linux every process of ours has some.
  if (own === undefined || own.flags === 0 || own.children === undefined) {
    reader.close();
    return undefined;
  }
  let before = lookAtTask(reader, task, NO_PROCESSES);
  let nobodyDied = hasNobodyDied(before, options);
  let lookedMs = -Infinity;
  let diedAtMs = -Infinity;
  /**
   * Without a launcher, orphans are adopted by a process that we do not look at: after one more death some may be
   * unseen.
   */
  let isLost = false;
  let nextMs = now();
  let due: DueLooks | undefined;
  const look = (): Evidence => {
    const startMs = now();
    const seen = lookAtTask(reader, task, before);
    const hasLauncher = seen.processes.has(task.launcher);
    const evidence = evidenceOf(hasLauncher ? before : without(before, task.launcher), seen);
    nobodyDied &&= hasLauncher && evidence === 'clean';
    lookedMs = startMs;
    const news = { hasChanged: hasChanged(before, seen), isRemote: seen.isRemote, pids: living(seen) };
    before = seen;
    due?.looked(news);
    const endMs = now();
    nextMs = endMs + Math.min(MOST_PAUSE_MS, (endMs - startMs) * SHARE);
    if (evidence === 'doubtful') diedAtMs = endMs;
    if (isLost) return evidence === 'clean' ? 'unknown' : evidence;
    isLost = !hasLauncher && evidence === 'doubtful';
    return evidence === 'clean' && endMs - diedAtMs < AFTER_DEATH_MS ? 'doubtful' : evidence;
  };
  return {
    get nextMs() {
      return nextMs;
    },
    judge: look,
    nobodyDiedUntil: (atMs) => nobodyDied && atMs <= lookedMs,
    whenDue: (take) => {
      due = new DueLooks(take);
    },
    pids: () => [...before.processes.keys()].filter((pid) => pid !== task.launcher),
    close: () => {
      due?.close();
      reader.close();
    },
  };
}

/**
 * Compares the first look with the one that would have been taken before the task started, which saw only the launcher.
 */
function hasNobodyDied(
  { processes, ...first }: ProcessTable,
  { launcher, launcherFaults }: WitnessOptions,
): boolean {
  const seen = launcher === undefined ? undefined : processes.get(launcher);
  if (launcher === undefined || seen === undefined || launcherFaults === undefined) return false;
  const before = { ...NO_PROCESSES, processes: new Map([[launcher, { ...seen, reaped: launcherFaults }]]) };
  return evidenceOf(before, { ...first, processes }) === 'clean';
}

/** The launcher itself writes no declared file, so its death closes none. */
function without(look: ProcessTable, launcher: number): ProcessTable {
  return { ...look, processes: new Map([...look.processes].filter(([pid]) => pid !== launcher)) };
}

function living({ processes }: ProcessTable): readonly number[] {
  return [...processes].flatMap(([pid, { life }]) => (life === 'alive' ? [pid] : []));
}

function lookAtTask(reader: ProcReader, task: TaskProcesses, before: ProcessTable): ProcessTable {
  const processes = new Map<number, ProcessSeen>();
  let isBlind = false;
  let isRemote = false;
  const visit = (pid: number): void => {
    if (pid === task.self || processes.has(pid)) return;
    // The launcher is Node: it starts processes from its main thread, which also adopts orphans.
    const facts = reader.read(pid, pid === task.launcher);
    if (facts === undefined) {
      if (isHidden(pid)) isBlind = true;
      else if (pid !== task.launcher) processes.set(pid, GONE);
      return;
    }
    const seen = seenAs(facts);
    // A dying launcher adopts no more orphans.
    if (pid === task.launcher && seen.life !== 'alive') return;
    processes.set(pid, seen);
    isBlind ||= facts.children === undefined || (facts.ignores & SIGCHLD_BIT) !== 0;
    isRemote ||= startsElsewhere(facts.name);
    for (const child of facts.children ?? []) visit(child);
  };
  visit(task.launcher);
  if (!processes.has(task.launcher)) {
    // The children of the dead process now have another parent.
    for (const [pid, seen] of before.processes) if (seen.life !== 'dead') visit(pid);
  }
  // If the previous look knew of no daemon, a rank that started and ended since then has left no trace.
  if (isRemote) isBlind ||= !visitRemote(reader, task, processes, visit) || !before.isRemote;
  reader.keepOnly(processes);
  return { processes, isBlind, isRemote };
}

/**
 * Visits the daemon and the processes that it started for the task; the daemon waits for them. False if they cannot all
 * be seen.
 */
function visitRemote(
  reader: ProcReader,
  { self, token }: TaskProcesses,
  processes: Map<number, ProcessSeen>,
  visit: (pid: number) => void,
): boolean {
  let found = false;
  for (const pid of processesWithEnvironment(`CAPTURED_RUN=${token}`)) {
    if (pid === self || processes.has(pid)) continue;
    const facts = reader.read(pid);
    if (facts === undefined) continue;
    if (!processes.has(facts.parent)) {
      const daemon = reader.read(facts.parent);
      if (daemon?.children === undefined) return false;
      processes.set(facts.parent, seenAs(daemon));
      // A dying rank has no environment any more (proc_pid_environ(5)), and its parent may not have waited for it yet.
      for (const child of daemon.children) if (!isAlive(reader, child)) visit(child);
    }
    visit(pid);
    found = true;
  }
  return found;
}

function isAlive(reader: ProcReader, pid: number): boolean {
  const facts = reader.read(pid, true);
  return facts !== undefined && lifeOf(facts) === 'alive';
}

function seenAs(stat: ProcessStat): ProcessSeen {
  return { startTicks: stat.startTicks, life: lifeOf(stat), reaped: stat.childFaults };
}
