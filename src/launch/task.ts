// Finds the task's program, starts it, and signals it. Its stdin, stdout, stderr and terminal are its own: the
// launcher passes on the descriptors and never opens a stream on them (libuv would make a shared pipe non-blocking).
// Only with --log-output, a pipe of output-pipes.ts takes the place of a pipe.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { CaptureError, errnoOf, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import type { TaskEnd, Usage } from '../model/format/messages.ts';
import {
  CLOCK_VARIABLE,
  LAST_SEEN_VARIABLE,
  RUNNER_VARIABLE,
  SIDECAR_VARIABLE,
} from '../model/format/shared-sidecar.ts';
import { encodePath, showPath } from '../model/path.ts';
import { clockMs } from '../native/clock.ts';
import { reapedChild } from '../native/ended.ts';
import { sendSignal } from '../native/processes.ts';
import { commandLineOf, SHIM_VARIABLES } from './inherited.ts';

/** The path that execvp(3) searches if PATH is not set. */
const DEFAULT_PATH = '/bin:/usr/bin';

/**
 * The absolute path of `command`; relative names start at the work directory. Call it before anything is started or
 * written, so that a mistyped name costs nothing. It searches like execvp(3): a file that cannot be run does not hide
 * a later one that can.
 *
 * @throws CaptureError with status 127 if there is no such file, 126 if it exists and cannot be run.
 */
export function findCommand(command: string, workdir: string, searchPath = DEFAULT_PATH): string {
  const candidates = command.includes('/')
    ? [path.resolve(workdir, command)]
    : searchPath.split(':').map((dir) => path.resolve(workdir, dir, command));
  let denied: string | undefined;
  for (const candidate of command === '' ? [] : candidates) {
    const state = stateOf(candidate);
    if (state === 'runnable') return candidate;
    if (state === 'denied') denied ??= candidate;
  }
  if (denied !== undefined) {
    throw new CaptureError(
      EXIT.notExecutable,
      `cannot run ${showPath(denied)}: it is not an executable file`,
      {
        hint: `chmod +x ${showPath(denied)}, or name its interpreter before it`,
      },
    );
  }
  const where = command.includes('/') ? `in ${showPath(workdir)}` : 'in PATH';
  throw new CaptureError(EXIT.notFound, `cannot run ${showPath(command) || "''"}: no such command ${where}`, {
    hint: command.includes('/')
      ? 'check the name, or give the whole path'
      : `a program of the work directory is named ./${showPath(command)}`,
  });
}

function stateOf(file: string): 'runnable' | 'denied' | 'missing' {
  try {
    if (!fs.statSync(encodePath(file)).isFile()) return 'denied';
    fs.accessSync(encodePath(file), fs.constants.X_OK);
    return 'runnable';
  } catch (error) {
    const code = errnoOf(error);
    if (code === undefined) throw error;
    return code === 'EACCES' ? 'denied' : 'missing';
  }
}

interface TaskOptions {
  /** As the user typed it; the task's argv[0]. */
  readonly command: string;
  readonly args: readonly string[];
  /** Absolute path of the program that `command` names. */
  readonly file: string;
  readonly workdir: string;
  readonly env: NodeJS.ProcessEnv;
  /** The task stays in the launcher's process group: it uses the same terminal. */
  readonly sharesGroup: boolean;
  readonly ignoredSignals: ReadonlySet<string>;
  /** By number. */
  readonly blockedSignals: readonly number[];
  /** What it gets as its stdout and stderr. */
  readonly outputs: readonly [stdout: number, stderr: number];
  /** Open files above 2 to pass on. */
  readonly fds: readonly number[];
  /** Every living process that belongs to the task. */
  readonly members: () => readonly number[];
  /** Running children that the launcher itself started; updated here. */
  readonly ownChildren: Set<number>;
}

export interface Task {
  readonly pid: number;
  readonly sharesGroup: boolean;
  readonly ended: Promise<TaskEnd>;
  /** Of the main process, once it has ended. */
  usage(): Usage | undefined;
  /** Every living process that belongs to the task. */
  members(): readonly number[];
  /** To the task's group, or, in the launcher's own group, to each of its processes. */
  signal(signal: NodeJS.Signals): void;
}

/** @throws CaptureError with status 126 or 127 if the kernel does not start it. */
export async function startTask(options: TaskOptions): Promise<Task> {
  const { file, argv0, args, env } = commandLineOf(options);
  let child: ChildProcess;
  try {
    child = spawn(file, args, {
      argv0,
      cwd: options.workdir,
      env,
      stdio: stdioOf(options),
      detached: !options.sharesGroup,
    });
  } catch (error) {
    throw startFailure(options, error); // spawn throws E2BIG and ENOMEM, and emits ENOENT and the like
  }
  const reaped = reapedChild(child);
  const { pid } = child;
  if (pid === undefined) throw startFailure(options, await reaped.catch((error: unknown) => error));
  options.ownChildren.add(pid);
  let usage: Usage | undefined;
  return {
    pid,
    sharesGroup: options.sharesGroup,
    ended: reaped.then((how) => {
      options.ownChildren.delete(pid);
      ({ usage } = how);
      return { ...how.ended, atMs: clockMs() };
    }),
    usage: () => usage,
    members: options.members,
    signal: (signal) => {
      if (options.sharesGroup) for (const member of options.members()) sendSignal(member, signal);
      else sendSignal(-pid, signal);
    },
  };
}

function stdioOf({ outputs, fds }: Pick<TaskOptions, 'outputs' | 'fds'>): (number | 'ignore')[] {
  // 'ignore' leaves the number closed.
  const above = Array.from({ length: Math.max(2, ...fds) - 2 }, (_, at) =>
    fds.includes(at + 3) ? at + 3 : ('ignore' as const),
  );
  return [0, ...outputs, ...above];
}

function startFailure(options: TaskOptions, cause: unknown): CaptureError {
  const status = errnoOf(cause) === 'ENOENT' ? EXIT.notFound : EXIT.notExecutable;
  return new CaptureError(status, `cannot start ${showPath(options.file)}: ${reasonOf(cause)}`, { cause });
}

/** The runner sets these for its launchers, not for captures that a task may start. */
const RUNNER_VARIABLES = [RUNNER_VARIABLE, SIDECAR_VARIABLE, CLOCK_VARIABLE, LAST_SEEN_VARIABLE];

/** The variables of this run in the task's environment. Jobs that the task submits must not inherit its index. */
export function taskEnvironment(
  env: NodeJS.ProcessEnv,
  run: {
    readonly index: string | undefined;
    readonly attempt: number;
    readonly restored: string;
    readonly token: string;
    readonly socket: string | undefined;
  },
): NodeJS.ProcessEnv {
  const dropped = new Set<string>([
    ...SHIM_VARIABLES,
    'CAPTURE_INDEX',
    'CAPTURED_SOCKET',
    ...RUNNER_VARIABLES,
  ]);
  return {
    ...Object.fromEntries(Object.entries(env).filter(([name]) => !dropped.has(name))),
    CAPTURED_INDEX: run.index ?? '',
    CAPTURED_ATTEMPT: String(run.attempt),
    CAPTURED_RESTORED: run.restored,
    CAPTURED_RUN: run.token,
    ...(run.socket === undefined ? {} : { CAPTURED_SOCKET: run.socket }),
  };
}
