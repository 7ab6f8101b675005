// Looks at the task's processes after closes were read, and says whether one of them died: one look for all closes
// that came together. It watches nobody else's processes, and never says that it saw what it could not see.
import {
  evidenceOf,
  hasChanged,
  NOBODY,
  type Evidence,
  type Look,
  type Seen,
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

/** SIGCHLD, 17, in a mask of signals: who ignores it leaves no count of the children that ended. */
const SIGCHLD_BIT = 1 << 16;
/**
 * A death may be followed by closes that somebody else makes for it: a shell that gives up its own `> file`, the
 * kernel's workers that end what io_uring(7) had open.
 */
const AFTER_DEATH_MS = 1000;
/** It stood among the children of a process, and was waited for before it was looked at. */
const GONE: Seen = { startTicks: -1, life: 'dead', reaped: 0 };
/** Looks take at most one part in so many of the time. */
const SHARE = 50;
/** Closes wait no longer than this for a look that they share. */
const MOST_PAUSE_MS = 250;

export interface Witness {
  /** Looks now, and says what this tells of the closes that were read since the last look. */
  judge(): Evidence;
  /** When the next look is due, as `performance.now()`: until then more closes may come together. */
  readonly nextMs: number;
  /** From now on calls `look` when one is due though nothing was closed: an old death must cast no doubt on a close. */
  whenDue(look: () => void): void;
  /**
   * True if no process of the task has died between the attempt's beginning and this instant (`performance.now()`). False
   * if that is not known: without {@link WitnessOptions.launcherFaults}, or if no look has been taken since.
   */
  nobodyDiedUntil(atMs: number): boolean;
  /** The task's processes at the last look. */
  pids(): readonly number[];
  close(): void;
}

interface TaskProcesses {
  /** All processes of the task descend from this one, or carry {@link token}. */
  readonly launcher: number;
  /** Ourselves: we and what we start are no part of the task. */
  readonly self: number;
  /** The value of CAPTURED_RUN: what a daemon starts for the task has it in its environment. */
  readonly token: string;
}

/** `launcher` undefined: somebody else runs the task, and nobody knows which processes are its. */
export type WitnessOptions = Omit<TaskProcesses, 'launcher'> & {
  readonly launcher: number | undefined;
  /** As in the message `start`: what is known of deaths before the first look. */
  readonly launcherFaults?: number | undefined;
};

/** Takes the first look. Undefined where nobody can see who closes a file. */
export function openWitness(options: WitnessOptions, now = () => performance.now()): Witness | undefined {
  const { launcher } = options;
  if (launcher === undefined) return undefined;
  const task = { ...options, launcher };
  const reader = new ProcReader();
  const own = reader.read(task.self);
  // A kernel that only looks like Linux has no flags of processes: every process of ours has some.
  if (own === undefined || own.flags === 0 || own.children === undefined) {
    reader.close();
    return undefined;
  }
  let before = lookAtTask(reader, task, NOBODY);
  let nobodyDied = hasNobodyDied(before, options);
  let lookedMs = -Infinity;
  let diedAtMs = -Infinity;
  /** Without a launcher nobody adopts orphans where we look: after one more death some may have gone unseen. */
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

/** Compares the first look with the one that would have been taken before the task was started: of the launcher alone. */
function hasNobodyDied({ processes, ...first }: Look, { launcher, launcherFaults }: WitnessOptions): boolean {
  const seen = launcher === undefined ? undefined : processes.get(launcher);
  if (launcher === undefined || seen === undefined || launcherFaults === undefined) return false;
  const before = { ...NOBODY, processes: new Map([[launcher, { ...seen, reaped: launcherFaults }]]) };
  return evidenceOf(before, { ...first, processes }) === 'clean';
}

/** The launcher itself writes no declared file: its death is none that closes one. */
function without(look: Look, launcher: number): Look {
  return { ...look, processes: new Map([...look.processes].filter(([pid]) => pid !== launcher)) };
}

function living({ processes }: Look): readonly number[] {
  return [...processes].flatMap(([pid, { life }]) => (life === 'alive' ? [pid] : []));
}

function lookAtTask(reader: ProcReader, task: TaskProcesses, before: Look): Look {
  const processes = new Map<number, Seen>();
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
    // A launcher that is dying adopts nobody any more.
    if (pid === task.launcher && seen.life !== 'alive') return;
    processes.set(pid, seen);
    isBlind ||= facts.children === undefined || (facts.ignores & SIGCHLD_BIT) !== 0;
    isRemote ||= startsElsewhere(facts.name);
    for (const child of facts.children ?? []) visit(child);
  };
  visit(task.launcher);
  if (!processes.has(task.launcher)) {
    // What it had started is some other process's child now.
    for (const [pid, seen] of before.processes) if (seen.life !== 'dead') visit(pid);
  }
  // A rank that came and went since a look that knew of no daemon has left no trace.
  if (isRemote) isBlind ||= !visitRemote(reader, task, processes, visit) || !before.isRemote;
  reader.keepOnly(processes);
  return { processes, isBlind, isRemote };
}

/** What a daemon has started for the task, and the daemon, which waits for it. False when they cannot all be seen. */
function visitRemote(
  reader: ProcReader,
  { self, token }: TaskProcesses,
  processes: Map<number, Seen>,
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
      // A rank that is dying has no environment any more (proc_pid_environ(5)), and may not have been waited for yet.
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

function seenAs(stat: ProcessStat): Seen {
  return { startTicks: stat.startTicks, life: lifeOf(stat), reaped: stat.childFaults };
}
