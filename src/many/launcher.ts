// One running task: a launcher of its own, started as `capture` is started for one task, so that every option, signal
// and exit status means what it means there. It says how the task ended; what follows is the runner's.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { commandLineOf } from '../launch/inherited.ts';
import { RUNNER_VARIABLE } from '../launch/task.ts';
import { reasonOf } from '../model/errors.ts';
import { EXIT, type ExitStatus, statusOfSignal } from '../model/exit-status.ts';
import { clockMs } from '../native/clock.ts';
import { numberOfSignal, reapedChild } from '../native/ended.ts';
import { openRegular } from '../native/files.ts';
import { descendants, processesWithEnvironment, readProc, sendSignal } from '../native/processes.ts';
import { MemoryBelow } from './machine.ts';
import { lowerTo, type SharedSidecar } from './shared-sidecar.ts';
import type { Force } from './stop-escalation.ts';

export interface LauncherStart {
  /** Of capture, without the task. */
  readonly options: readonly string[];
  readonly argv: readonly string[];
  /** The environment of the launcher, and so of the task. */
  readonly env: NodeJS.ProcessEnv;
  /** The current directory of the launcher: relative paths among the options are taken from there. */
  readonly cwd: string;
  /** stdout and stderr are appended to it. */
  readonly logFile: string;
  readonly mayShareSidecar: boolean;
  /** Kept open by the launcher as long as it lives. */
  readonly lockFd: number;
  readonly nice: number | undefined;
  /** The module that runs one task. */
  readonly entry: string;
  /** A task that ends with it asks to be run again. */
  readonly preemptedStatus: ExitStatus;
  /** A task may ask for it itself (--again-status, --done-when). */
  readonly mayAskAgain: boolean;
}

/** What all launchers of one runner share. */
export interface RunnerServices {
  readonly sidecar: Pick<SharedSidecar, 'enter' | 'lifeOver'>;
  /** Running children that we started ourselves; kept up to date here. */
  readonly ownChildren: Set<number>;
  readonly jobSlots: JobSlots;
}

/** How one start of a task ended. */
export interface LauncherEnd {
  /**
   * - `done`: all is stored.
   * - `failed`: tried again at the end of the line, if it has retries left.
   * - `again`: it was told to end so that it runs later, by this runner or because the machine goes (75). It waits for
   *   its turn, before all that have not begun, and counts as no retry. A task that exits 75 of its own accord has
   *   failed: it would be started for ever.
   * - `fenced`: another attempt has the index (76). It is not started again here.
   * - `final`: no retry mends it, as capture itself refused (64, 66, 69, 126, 127).
   */
  readonly kind: 'done' | 'failed' | 'again' | 'fenced' | 'final';
  readonly status: ExitStatus;
  /** The signal that ended the launcher, if one did. */
  readonly signal?: number | undefined;
  /** What the launcher could not say, as it was killed or never started. */
  readonly why?: string | undefined;
  readonly runtimeMs: number;
  /** Of all its processes together. */
  readonly peakBytes: number;
  /** Of stdout and stderr. */
  readonly outputBytes: number;
}

export interface Launcher {
  readonly startedMs: number;
  /** Never rejects. */
  readonly ended: Promise<LauncherEnd>;
  /** It was told to end, by us or by a notice. */
  readonly isEnding: boolean;
  /** Of all its processes now. */
  usedBytes(): number;
  end(force: Force): void;
  /** A notice tells it to end. */
  noticed(): void;
  /** To the launcher, which does with it what it does for one task. */
  signal(signal: NodeJS.Signals): void;
}

/** Set for each launcher, and so for all that it starts: its name. */
const LOG_VARIABLE = 'CAPTURED_TASK_LOG';
/** For the task: its number among those that run at the same time, such as the number of its GPU. */
const JOB_SLOT_VARIABLE = 'CAPTURED_JOB_SLOT';

export function startLauncher(start: LauncherStart, services: RunnerServices): Launcher {
  try {
    return started(start, services);
  } catch (error) {
    return failedLauncher(reasonOf(error));
  }
}

/** Throws if this machine has no process, memory or file left for it. */
function started(start: LauncherStart, { sidecar, ownChildren, jobSlots }: RunnerServices): Launcher {
  const { O_WRONLY, O_APPEND, O_CREAT } = fs.constants;
  // Another task may have put something else there.
  const log = openRegular(start.logFile, O_WRONLY | O_APPEND | O_CREAT);
  const logFromBytes = fs.fstatSync(log).size;
  const shared = start.mayShareSidecar ? sidecar.enter() : undefined;
  const jobSlot = jobSlots.take();
  const close = (): void => {
    fs.closeSync(log);
    jobSlots.leave(jobSlot);
    shared?.leave();
  };
  let child: ChildProcess;
  try {
    child = spawnLauncher(start, log, { ...shared?.env(), [JOB_SLOT_VARIABLE]: String(jobSlot) });
  } catch (error) {
    close();
    throw error;
  }
  // In this turn of the event loop: its exit status would be libuv's.
  const reaped = reapedChild(child);
  const { pid = 0 } = child;
  if (pid !== 0) ownChildren.add(pid);
  if (pid !== 0 && start.nice !== undefined) lowerTo(start.nice, pid);
  const name = `${LOG_VARIABLE}=${start.logFile}`;
  const life: Life = { startedMs: clockMs(), pid, name, isEnding: false, peakBytes: 0 };
  const ended = reaped
    .then(async ({ ended: how, usage }) => {
      life.pid = 0;
      ownChildren.delete(pid);
      if (how.signal !== undefined) {
        await endOrphans(name);
        // It has the work directory until all is stored that was closed.
        if (shared !== undefined) await sidecar.lifeOver(pid);
      }
      life.peakBytes = Math.max(life.peakBytes, usage?.maxRssBytes ?? 0);
      return endOf(start, life, { ...how, outputBytes: fs.fstatSync(log).size - logFromBytes });
    })
    .catch((error: unknown) => notStarted(life.startedMs, reasonOf(error)))
    .finally(close);
  return launcherOf(life, ended);
}

/** What is known of a launcher while it runs. */
interface Life {
  readonly startedMs: number;
  /** 0 once its exit status is taken: from then on the kernel may give its pid to anybody. */
  pid: number;
  /** In the environment of all of its processes. */
  readonly name: string;
  isEnding: boolean;
  peakBytes: number;
}

function launcherOf(life: Life, ended: Promise<LauncherEnd>): Launcher {
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
    end: (force) => {
      life.isEnding = true;
      if (force === 'kill') killAll(life);
      else signal(force === 'checkpoint' ? 'SIGTERM' : 'SIGINT');
    },
    noticed: () => {
      life.isEnding = true;
    },
    signal,
  };
}

/** Of a task that could not be started. */
export function failedLauncher(why: string): Launcher {
  const life: Life = { startedMs: clockMs(), pid: 0, name: '', isEnding: true, peakBytes: 0 };
  return launcherOf(life, Promise.resolve(notStarted(life.startedMs, why)));
}

function notStarted(startedMs: number, why: string): LauncherEnd {
  const runtimeMs = clockMs() - startedMs;
  return { kind: 'failed', status: EXIT.internal, why, runtimeMs, peakBytes: 0, outputBytes: 0 };
}

function endOf(
  start: LauncherStart,
  { startedMs, peakBytes, isEnding }: Life,
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

/** Statuses with which capture itself refuses: nothing was started. */
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
  // Whatever a task that was told to end ends with: it has done what it could.
  if (isEnding || (status === preemptedStatus && mayAskAgain)) return 'again';
  return REFUSED.has(status) ? 'final' : 'failed';
}

/** A session of its own: what a terminal sends to our group is for us alone, and we tell the tasks. */
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
      [LOG_VARIABLE]: start.logFile,
      [RUNNER_VARIABLE]: String(process.pid),
    },
    stdio: ['ignore', log, log, start.lockFd],
    detached: true,
  });
}

/** Of one that has ended some processes may still be there: those that carry its name. */
function killAll({ pid, name }: Life): void {
  const below = pid === 0 ? [] : [pid, ...descendants(pid, new Set())];
  const named = name === '' ? [] : processesWithEnvironment(name);
  for (const one of [...below, ...named]) sendSignal(one, 'SIGKILL');
}

/** Nobody tells us of the end of processes that are not our children. */
const LOOK_EVERY_MS = 200;

/**
 * After a launcher was killed (by the kernel for want of memory, most often), nobody would end its task: this kills it, and
 * resolves once a sidecar of its own has stored what was closed, and has ended.
 */
async function endOrphans(name: string): Promise<void> {
  for (;;) {
    const left = processesWithEnvironment(name);
    if (left.length === 0) return;
    for (const pid of left) if (!isSidecar(pid)) sendSignal(pid, 'SIGKILL');
    await sleep(LOOK_EVERY_MS);
  }
}

function isSidecar(pid: number): boolean {
  return (readProc(pid, 'cmdline') ?? '').split('\0').some((word) => word.endsWith('/sidecar.cjs'));
}

/** Numbers for tasks that run at the same time: each has one that no other has, from 0, and the lowest that is free. */
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
