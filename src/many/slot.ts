// One running task: a launcher of its own, started as `capture` is started for one task, so that every option, signal
// and exit status means what it means there. It says how the task ended; what follows is the runner's.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import { commandLineOf } from '../launch/inherited.ts';
import { RUNNER_VARIABLE } from '../launch/task.ts';
import { EXIT, type ExitStatus, statusOfSignal } from '../model/exit-status.ts';
import type { Ending } from '../model/many/plan.ts';
import { reasonOf } from '../model/errors.ts';
import { openRegular } from '../native/files.ts';
import { clockMs } from '../native/clock.ts';
import { numberOfSignal, reapedChild } from '../native/ended.ts';
import { descendants, processesWithEnvironment, sendSignal } from '../native/processes.ts';
import { endOrphans } from './orphans.ts';
import { MemoryBelow } from './machine.ts';
import type { Seats } from './seats.ts';
import type { SharedSidecar } from './shared-sidecar.ts';

/** What a slot starts. */
export interface SlotStart {
  readonly index: number;
  /** Of capture, without the task. */
  readonly options: readonly string[];
  readonly argv: readonly string[];
  /** The environment of the launcher, and so of the task. */
  readonly env: NodeJS.ProcessEnv;
  /** The current directory of the launcher: relative paths among the options are taken from there. */
  readonly cwd: string;
  /** stdout and stderr are appended to it. */
  readonly logFile: string;
  /** That it may share with the others. */
  readonly sidecar: Pick<SharedSidecar, 'enter' | 'lifeOver'> | undefined;
  /** Kept open by the launcher as long as it lives. */
  readonly lockFd: number;
  readonly nice: number | undefined;
  /** The module that runs one task. */
  readonly entry: string;
  /** That asks to be run again. */
  readonly preemptedStatus: ExitStatus;
  /** A task may ask for it itself (--again-status, --done-when). */
  readonly mayAskAgain: boolean;
  /** Running children that we started ourselves; kept up to date here. */
  readonly ownChildren: Set<number>;
  readonly seats: Seats;
}

export interface SlotEnd extends Ending {
  /** What the launcher could not say, as it was killed or never started. */
  readonly why: string | undefined;
  readonly runtimeMs: number;
  /** Of all its processes together. */
  readonly peakBytes: number;
  /** Of stdout and stderr. */
  readonly outputBytes: number;
}

/** How hard a task is told to end: `again` lets it checkpoint, `faster` does not wait for that, `kill` for nothing. */
export type Push = 'again' | 'faster' | 'kill';

export interface Slot {
  readonly index: number;
  readonly startedMs: number;
  /** Never rejects. */
  readonly ended: Promise<SlotEnd>;
  /** It was told to end, by us or by a notice. */
  readonly isEnding: boolean;
  /** Of all its processes now. */
  usedBytes(): number;
  end(how: Push): void;
  /** A notice tells it to end. */
  noticed(): void;
  /** To the launcher, which does with it what it does for one task. */
  signal(signal: NodeJS.Signals): void;
}

/** Set for each launcher, and so for all that it starts: whose they are. */
const LOG_VARIABLE = 'CAPTURED_TASK_LOG';
/** For the task: which of those that run at the same time it is, such as the number of its GPU. */
const SEAT_VARIABLE = 'CAPTURED_JOB_SLOT';

export function openSlot(start: SlotStart): Slot {
  const slotName = `${LOG_VARIABLE}=${start.logFile}`;
  const { O_WRONLY, O_APPEND, O_CREAT } = fs.constants;
  let log: number;
  try {
    // An earlier attempt of the task may have put something else there.
    log = openRegular(start.logFile, O_WRONLY | O_APPEND | O_CREAT);
  } catch (error) {
    return failedSlot(start.index, reasonOf(error));
  }
  const logFromBytes = fs.fstatSync(log).size;
  const shared = start.sidecar?.enter();
  const seat = start.seats.take();
  const close = (): void => {
    fs.closeSync(log);
    start.seats.leave(seat);
    shared?.leave();
  };
  let child: ChildProcess;
  try {
    child = spawnLauncher(start, log, { ...shared?.env(), [SEAT_VARIABLE]: String(seat) });
  } catch (error) {
    close();
    return failedSlot(start.index, reasonOf(error));
  }
  // In this turn of the event loop: its exit status would be libuv's.
  const reaped = reapedChild(child);
  const { pid } = child;
  if (pid !== undefined) start.ownChildren.add(pid);
  if (pid !== undefined && start.nice !== undefined) lowerTo(start.nice, pid);
  const life: Life = {
    startedMs: clockMs(),
    launcher: pid,
    memory: new MemoryBelow(pid ?? 0),
    peakBytes: 0,
    isEnding: false,
  };
  const ended = reaped
    .then(async (how) => {
      life.launcher = undefined;
      start.ownChildren.delete(pid ?? 0);
      if (how.ended.signal !== undefined) await endOrphans(slotName);
      // It has the work directory until all is stored that was closed.
      if (how.ended.signal !== undefined) await start.sidecar?.lifeOver(pid ?? 0);
      return endOf(start, life, { ...how, outputBytes: fs.fstatSync(log).size - logFromBytes });
    })
    .catch((error: unknown) => notStarted(life.startedMs, reasonOf(error)))
    .finally(close);
  return slotOf(start.index, life, {
    ended,
    push: (how) => push(life.launcher, how, slotName),
    signal: (signal) => tellLauncher(life.launcher, signal),
  });
}

/** What is known of a slot while it runs. */
interface Life {
  readonly startedMs: number;
  /** Undefined once its exit status is taken: from then on the kernel may give its pid to anybody. */
  launcher: number | undefined;
  readonly memory: MemoryBelow;
  peakBytes: number;
  isEnding: boolean;
}

interface Grip {
  readonly ended: Promise<SlotEnd>;
  readonly push: (how: Push) => void;
  readonly signal: (signal: NodeJS.Signals) => void;
}

function slotOf(index: number, life: Life, { ended, push, signal }: Grip): Slot {
  return {
    index,
    startedMs: life.startedMs,
    ended,
    get isEnding() {
      return life.isEnding;
    },
    usedBytes: () => {
      if (life.launcher === undefined) return 0;
      const { bytes, peakBytes } = life.memory.read();
      life.peakBytes = Math.max(life.peakBytes, peakBytes);
      return bytes;
    },
    end: (how) => {
      life.isEnding = true;
      push(how);
    },
    noticed: () => {
      life.isEnding = true;
    },
    signal,
  };
}

/** Of a task that could not be started. */
export function failedSlot(index: number, why: string): Slot {
  const startedMs = clockMs();
  const memory = new MemoryBelow(0);
  const life: Life = { startedMs, launcher: undefined, memory, peakBytes: 0, isEnding: true };
  const ended = Promise.resolve(notStarted(startedMs, why));
  return slotOf(index, life, { ended, push: () => undefined, signal: () => undefined });
}

/** Of a machine that has no process or memory left for it. */
function notStarted(startedMs: number, why: string): SlotEnd {
  const atMs = clockMs();
  const runtimeMs = atMs - startedMs;
  return { kind: 'failed', status: EXIT.internal, why, atMs, runtimeMs, peakBytes: 0, outputBytes: 0 };
}

function endOf(
  start: SlotStart,
  { startedMs, peakBytes, isEnding }: Life,
  { ended, usage, outputBytes }: Awaited<ReturnType<typeof reapedChild>> & { readonly outputBytes: number },
): SlotEnd {
  const atMs = clockMs();
  const signal = ended.signal === undefined ? undefined : numberOfSignal(ended.signal);
  const status = ended.code ?? statusOfSignal(signal ?? 0);
  return {
    kind: kindOf(status, { ...start, wasTold: isEnding }),
    status,
    signal,
    why: signal === undefined ? undefined : `its launcher was killed by ${ended.signal}`,
    atMs,
    runtimeMs: atMs - startedMs,
    peakBytes: Math.max(peakBytes, usage?.maxRssBytes ?? 0),
    outputBytes,
  };
}

/** A session of its own: what a terminal sends to our group is for us alone, and we tell the tasks. */
function spawnLauncher(start: SlotStart, log: number, added: NodeJS.ProcessEnv): ChildProcess {
  const { file, argv0, args } = commandLineOf({
    command: process.execPath,
    file: process.execPath,
    args: [...process.execArgv, start.entry, ...start.options, '--', ...start.argv],
    env: start.env,
    ignoredSignals: new Set(),
    blockedSignals: [],
  });
  return spawn(file, args, {
    argv0,
    cwd: start.cwd,
    env: {
      ...start.env,
      ...added,
      [LOG_VARIABLE]: start.logFile,
      [RUNNER_VARIABLE]: String(process.pid),
    },
    stdio: ['ignore', log, log, start.lockFd],
    detached: true,
  });
}

/** Before it starts threads and the task, which have it from its first thread. */
function lowerTo(niceness: number, pid: number): void {
  try {
    os.setPriority(pid, niceness);
  } catch {
    // It has ended.
  }
}

/** Of one whose launcher has ended some processes may still be there: those that carry its name. */
function push(launcher: number | undefined, how: Push, slotName: string): void {
  switch (how) {
    case 'again':
      return tellLauncher(launcher, 'SIGTERM');
    case 'faster':
      return tellLauncher(launcher, 'SIGINT');
    case 'kill': {
      const below = launcher === undefined ? [] : [launcher, ...descendants(launcher, new Set())];
      for (const pid of [...below, ...processesWithEnvironment(slotName)]) sendSignal(pid, 'SIGKILL');
    }
  }
}

function tellLauncher(launcher: number | undefined, signal: NodeJS.Signals): void {
  if (launcher !== undefined) sendSignal(launcher, signal);
}

/** Statuses with which capture itself refuses: nothing was started. */
const REFUSED: ReadonlySet<ExitStatus> = new Set([
  EXIT.usage,
  EXIT.inputMissing,
  EXIT.unavailable,
  EXIT.notExecutable,
  EXIT.notFound,
]);

interface Asked extends Pick<SlotStart, 'preemptedStatus' | 'mayAskAgain'> {
  readonly wasTold: boolean;
}

function kindOf(status: ExitStatus, { preemptedStatus, mayAskAgain, wasTold }: Asked): Ending['kind'] {
  if (status === EXIT.ok) return 'done';
  if (status === EXIT.fenced) return 'fenced';
  // Whatever a task that was told to end ends with: it has done what it could.
  if (wasTold || (status === preemptedStatus && mayAskAgain)) return 'again';
  return REFUSED.has(status) ? 'final' : 'failed';
}
