// One running task. It has a launcher of its own, started in the same way as `capture` for one task, so that every
// option, signal and exit status has the same meaning. This module reports how the task ended; the runner decides what
// follows.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { commandLineOf } from '../launch/inherited.ts';
import { isFull, reasonOf } from '../model/errors.ts';
import { EXIT, type ExitStatus, statusOfSignal } from '../model/exit-status.ts';
import { RUNNER_VARIABLE, STOP_FILE_ENDING, TASK_LOG_VARIABLE } from '../model/format/shared-sidecar.ts';
import type { StopCause } from '../model/format/stop-cause.ts';
import { clockMs } from '../native/clock.ts';
import { numberOfSignal, reapedChild } from '../native/ended.ts';
import { openRegular } from '../native/files.ts';
import { makePrivateFile } from '../native/private-dir.ts';
import { descendants, sendSignal } from '../native/processes.ts';
import { MemoryBelow } from './machine.ts';
import { endOrphans, processesNamed } from './orphans.ts';
import { lowerTo, type SharedSidecar } from './shared-sidecar.ts';
import type { Force } from './stop-escalation.ts';

export interface LauncherStart {
  /** The options of capture, without the task. */
  readonly options: readonly string[];
  readonly argv: readonly string[];
  /** The environment of the launcher, which the task inherits. */
  readonly env: NodeJS.ProcessEnv;
  /** The launcher's current directory. Relative paths in the options start here. */
  readonly cwd: string;
  /** stdout and stderr are appended to this file. */
  readonly logFile: string;
  readonly mayShareSidecar: boolean;
  /** The launcher keeps this descriptor open as long as it lives. */
  readonly lockFd: number;
  readonly nice: number | undefined;
  /** The module that runs one task. */
  readonly entry: string;
  /** A task that exits with this status asks to run again. */
  readonly preemptedStatus: ExitStatus;
  /** The task may ask to run again (--again-status, --done-when). */
  readonly mayAskAgain: boolean;
}

/** What all launchers of one runner share. */
export interface RunnerServices {
  readonly sidecar: Pick<SharedSidecar, 'enter' | 'lifeOver'>;
  /** Running children that we started ourselves; this module keeps the set up to date. */
  readonly ownChildren: Set<number>;
  readonly jobSlots: JobSlots;
}

/** How one start of a task ended. */
export interface LauncherEnd {
  /**
   * - `done`: everything is stored.
   * - `failed`: retried at the end of the line, if it has retries left.
   * - `again`: we or a notice told it to end, so it runs later (75). It waits before all tasks that have not started,
   *   and uses up no retry. A task that exits 75 of its own accord counts as failed; otherwise it would restart for
   *   ever.
   * - `fenced`: another attempt has the index (76). It is not started again here.
   * - `final`: a retry cannot help, because capture itself refused (64, 66, 69, 126, 127).
   */
  readonly kind: 'done' | 'failed' | 'again' | 'fenced' | 'final';
  readonly status: ExitStatus;
  /** The signal that ended the launcher, if one did. */
  readonly signal?: number | undefined;
  /** The reason, if the launcher could not log it because it was killed or never started. */
  readonly why?: string | undefined;
  readonly runtimeMs: number;
  /** Peak memory of all its processes together. */
  readonly peakBytes: number;
  /** Size of stdout and stderr together. */
  readonly outputBytes: number;
}

export interface Launcher {
  readonly startedMs: number;
  /** Resolves when the launcher has ended. Never rejects. */
  readonly ended: Promise<LauncherEnd>;
  /** We or a notice told it to end. */
  readonly isEnding: boolean;
  /** Memory that all its processes use now. */
  usedBytes(): number;
  /** The launcher learns the cause, for the record of its attempt. */
  end(force: Force, cause: StopCause): void;
  /** Marks the task as ending because of a notice. */
  noticed(): void;
  /** Sends the signal to the launcher, which handles it as it does for a single task. */
  signal(signal: NodeJS.Signals): void;
}

/** For the task: its slot number among the tasks that run at the same time, such as the number of its GPU. */
const JOB_SLOT_VARIABLE = 'CAPTURED_JOB_SLOT';

export function startLauncher(start: LauncherStart, services: RunnerServices): Launcher {
  try {
    return started(start, services);
  } catch (error) {
    return failedLauncher(error);
  }
}

/** Throws if this machine has no process, memory or file left for it. */
function started(start: LauncherStart, { sidecar, ownChildren, jobSlots }: RunnerServices): Launcher {
  const { O_WRONLY, O_APPEND, O_CREAT } = fs.constants;
  // Another task may have put something else there, such as a FIFO.
  const log = openRegular(start.logFile, O_WRONLY | O_APPEND | O_CREAT);
  const logFromBytes = fs.fstatSync(log).size;
  const shared = start.mayShareSidecar ? sidecar.enter() : undefined;
  const jobSlot = jobSlots.take();
  const close = (): void => {
    fs.closeSync(log);
    jobSlots.leave(jobSlot);
    shared?.leave();
    fs.rmSync(start.logFile + STOP_FILE_ENDING, { force: true });
  };
  let child: ChildProcess;
  try {
    child = spawnLauncher(start, log, { ...shared?.env(), [JOB_SLOT_VARIABLE]: String(jobSlot) });
  } catch (error) {
    close();
    throw error;
  }
  // Must run in the same turn of the event loop as spawn(); otherwise libuv reaps the child first.
  const reaped = reapedChild(child);
  const { pid = 0 } = child;
  if (pid !== 0) ownChildren.add(pid);
  if (pid !== 0 && start.nice !== undefined) lowerTo(start.nice, pid);
  // The launcher's name.
  const name = `${TASK_LOG_VARIABLE}=${start.logFile}`;
  const { logFile } = start;
  const life: LauncherLife = { startedMs: clockMs(), pid, name, logFile, isEnding: false, peakBytes: 0 };
  const ended = reaped
    .then(async ({ ended: how, usage }) => {
      life.pid = 0;
      ownChildren.delete(pid);
      if (how.signal !== undefined) {
        await endOrphans(name, path.join(path.dirname(start.entry), 'sidecar.cjs'));
        // The sidecar uses the work directory until all closed files are stored.
        if (shared !== undefined) await sidecar.lifeOver(pid);
      }
      life.peakBytes = Math.max(life.peakBytes, usage?.maxRssBytes ?? 0);
      return endOf(start, life, { ...how, outputBytes: fs.fstatSync(log).size - logFromBytes });
    })
    .catch((error: unknown) => notStarted(life.startedMs, error))
    .finally(close);
  return launcherOf(life, ended);
}

/** What is known of a launcher while it runs. */
interface LauncherLife {
  readonly startedMs: number;
  /** 0 once its exit status is read, because the kernel may reuse the pid from then on. */
  pid: number;
  /** The launcher's name; all its processes have it in their environment. */
  readonly name: string;
  readonly logFile: string;
  isEnding: boolean;
  peakBytes: number;
}

function launcherOf(life: LauncherLife, ended: Promise<LauncherEnd>): Launcher {
  const memory = new MemoryBelow(life.pid);
  const signal = (one: NodeJS.Signals): void => {
    if (life.pid !== 0) sendSignal(life.pid, one);
  };
  return {
    startedMs: life.startedMs,
    ended,
    get isEnding() {
      return life.isEnding;
    },
    usedBytes: () => {
      if (life.pid === 0) return 0;
      const { bytes, peakBytes } = memory.read();
      life.peakBytes = Math.max(life.peakBytes, peakBytes);
      return bytes;
    },
    end: (force, cause) => {
      life.isEnding = true;
      leaveCause(life, cause);
      if (force === 'kill') killAll(life);
      else signal(force === 'checkpoint' ? 'SIGTERM' : 'SIGINT');
    },
    noticed: () => {
      life.isEnding = true;
    },
    signal,
  };
}

/** The first cause counts. Without it, the launcher only knows that SIGTERM came. */
function leaveCause({ pid, logFile }: LauncherLife, cause: StopCause): void {
  if (pid === 0) return;
  const name = path.basename(logFile) + STOP_FILE_ENDING;
  try {
    const fd = makePrivateFile(path.dirname(logFile), name);
    try {
      fs.writeFileSync(fd, JSON.stringify(cause));
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    // there is one already, or no room for it
  }
}

/** A stand-in for a task that could not be started. */
export function failedLauncher(cause: unknown): Launcher {
  const life: LauncherLife = {
    startedMs: clockMs(),
    pid: 0,
    name: '',
    logFile: '',
    isEnding: true,
    peakBytes: 0,
  };
  const why = `it cannot be started: ${reasonOf(cause)}`;
  const end = { ...notStarted(life.startedMs, cause), why };
  return launcherOf(life, Promise.resolve(end));
}

function notStarted(startedMs: number, error: unknown): LauncherEnd {
  const how = isFull(error)
    ? ({ kind: 'final', status: EXIT.unavailable } as const)
    : ({ kind: 'failed', status: EXIT.internal } as const);
  const runtimeMs = clockMs() - startedMs;
  return { ...how, why: reasonOf(error), runtimeMs, peakBytes: 0, outputBytes: 0 };
}

function endOf(
  start: LauncherStart,
  { startedMs, peakBytes, isEnding }: LauncherLife,
  how: Awaited<ReturnType<typeof reapedChild>>['ended'] & { readonly outputBytes: number },
): LauncherEnd {
  const signal = how.signal === undefined ? undefined : numberOfSignal(how.signal);
  const status = how.code ?? statusOfSignal(signal ?? 0);
  return {
    kind: kindOf(status, start, isEnding),
    status,
    signal,
    why: signal === undefined ? undefined : `its launcher was killed by ${how.signal}`,
    runtimeMs: clockMs() - startedMs,
    peakBytes,
    outputBytes: how.outputBytes,
  };
}

/** Exit statuses with which capture itself refuses to start a task. */
const REFUSED: ReadonlySet<ExitStatus> = new Set([
  EXIT.usage,
  EXIT.inputMissing,
  EXIT.unavailable,
  EXIT.notExecutable,
  EXIT.notFound,
]);

function kindOf(
  status: ExitStatus,
  { preemptedStatus, mayAskAgain }: LauncherStart,
  isEnding: boolean,
): LauncherEnd['kind'] {
  if (status === EXIT.ok) return 'done';
  if (status === EXIT.fenced) return 'fenced';
  // If a task was told to end, its exit status does not matter.
  if (isEnding || (status === preemptedStatus && mayAskAgain)) return 'again';
  return REFUSED.has(status) ? 'final' : 'failed';
}

/**
 * Starts the launcher in a session of its own: only we get the terminal's signals, and we pass them on to the tasks.
 */
function spawnLauncher(start: LauncherStart, log: number, added: NodeJS.ProcessEnv): ChildProcess {
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
      [TASK_LOG_VARIABLE]: start.logFile,
      [RUNNER_VARIABLE]: String(process.pid),
    },
    stdio: ['ignore', log, log, start.lockFd],
    detached: true,
  });
}

/**
 * Kills the launcher and its processes. If the launcher has ended, processes with its name in their environment may be
 * left.
 */
function killAll({ pid, name }: LauncherLife): void {
  const below = pid === 0 ? [] : [pid, ...descendants(pid, new Set())];
  const named = name === '' ? [] : processesNamed(name);
  for (const one of [...below, ...named]) sendSignal(one, 'SIGKILL');
}

/** Slot numbers for tasks that run at the same time. Each task gets the lowest free number, from 0. */
export class JobSlots {
  readonly #taken = new Set<number>();

  take(): number {
    let slot = 0;
    while (this.#taken.has(slot)) slot += 1;
    this.#taken.add(slot);
    return slot;
  }

  leave(slot: number): void {
    this.#taken.delete(slot);
  }
}
