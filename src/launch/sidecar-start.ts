// Starts a sidecar process, for one task or for all tasks of a machine. The command line starts the sidecar of a
// single task before it reads its options: most of a start is Node's own, and so two Nodes start at once. A sidecar
// waits for its settings, and exits with its channel.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import tty from 'node:tty';
import { CaptureError, REINSTALL } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { withoutShim } from './inherited.ts';

/**
 * A small heap: worker threads read file contents, outside this limit. Without an initial size V8 collects garbage in
 * each thread only when half of the limit is used.
 */
const NODE_FLAGS = ['--initial-old-space-size=16', '--max-semi-space-size=2'];
const HEAP_MB = 256;
/** About 2 MiB for each of very many tasks. */
const SHARED_HEAP_MB = 1024;
/** mallopt(3): otherwise each of a dozen threads keeps freed memory for itself, 10 MiB in all. */
const FEW_ARENAS = { MALLOC_ARENA_MAX: '2' };
/**
 * libuv's threads (default: four) wait for the file systems of all tasks. Where nothing better works, each task needs
 * one more to wait for inotify events (watch/inotify). libuv allows at most 1024.
 */
const SHARED_THREADS = 8;
const MOST_THREADS = 1024;

export interface StartedSidecar {
  readonly child: ChildProcess;
  /**
   * Resolves with the cause, once the process is gone and its last message has been read, or if it could not start.
   */
  readonly gone: Promise<string>;
}

/** With a terminal, task and sidecar stay in the launcher's process group; without one each gets its own session. */
export function sharesOurGroup(): boolean {
  return tty.isatty(0);
}

/** Throws if there is no memory for it. `entry` is the module to run: see {@link needEntry}. */
export function startSidecar(entry: string): StartedSidecar {
  const args = [`--max-old-space-size=${HEAP_MB}`, ...NODE_FLAGS, entry];
  return started(args, { env: withoutShim(process.env), detached: !sharesOurGroup(), fds: [] });
}

/**
 * The sidecar of all tasks that this runner starts. It listens at `socket`, for launchers of the same user, and keeps
 * `lockFd` open as long as it lives. It has its own session: the terminal's signals are for the runner alone.
 */
export function startSharedSidecar(
  entry: string,
  { socket, lockFd, env, tasksAtOnce }: SharedStart,
): StartedSidecar {
  const args = [`--max-old-space-size=${SHARED_HEAP_MB}`, ...NODE_FLAGS, entry, socket];
  const threads = { UV_THREADPOOL_SIZE: String(Math.min(MOST_THREADS, SHARED_THREADS + tasksAtOnce)) };
  return started(args, { env: { ...threads, ...env }, detached: true, fds: [lockFd] });
}

export interface SharedStart {
  readonly socket: string;
  readonly lockFd: number;
  readonly env: NodeJS.ProcessEnv;
  /** About how many tasks will run at once. */
  readonly tasksAtOnce: number;
}

/** Node would print a stack, and run an empty file, as a full disk leaves it. Throws status 70. */
export function needEntry(entry: string): void {
  if ((fs.statSync(entry, { throwIfNoEntry: false })?.size ?? 0) > 0) return;
  throw new CaptureError(EXIT.internal, `the installation is incomplete: ${entry} is missing or empty`, {
    hint: REINSTALL,
  });
}

interface Spawning {
  readonly env: NodeJS.ProcessEnv;
  readonly detached: boolean;
  /** The runner's descriptors that the sidecar keeps open. */
  readonly fds: readonly number[];
}

function started(args: readonly string[], { env, detached, fds }: Spawning): StartedSidecar {
  const child = spawn(process.execPath, args, {
    // Only messages for the user go to fd 2; the task's fd 1 carries the results of a pipeline.
    stdio: ['ignore', 'ignore', 2, 'ipc', ...fds],
    env: { ...FEW_ARENAS, ...env },
    detached,
  });
  return { child, gone: goneOf(child) };
}

/**
 * Not at 'exit': its last message may still be in the channel. Not at 'close' either: after the channel was
 * disconnected, that event never comes.
 */
function goneOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => {
      const how = signal ?? `exit ${code}`;
      if (child.connected) child.once('disconnect', () => resolve(how));
      else resolve(how);
    });
    child.on('error', (error) => child.pid === undefined && resolve(error.message));
  });
}
