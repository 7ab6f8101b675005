// Starts a process of the sidecar, for one task or for all of a machine. The command line starts that of one task before
// it reads its options: Node takes most of the time of a start to begin, and here two of them begin at once. A sidecar
// waits for its settings, and ends with its channel.
import { type ChildProcess, spawn } from 'node:child_process';
import tty from 'node:tty';
import { withoutShim } from './inherited.ts';

/**
 * Its heap stays small: file contents are read in worker threads, outside this limit. Without an initial size V8
 * looks for garbage only when half of the limit is taken, by each thread.
 */
const NODE_FLAGS = ['--initial-old-space-size=16', '--max-semi-space-size=2'];
const HEAP_MB = 256;
/** Some 2 MiB for each of very many tasks. */
const SHARED_HEAP_MB = 1024;
/** mallopt(3): each of a dozen threads keeping freed memory for itself would take 10 MiB more. */
const FEW_ARENAS = { MALLOC_ARENA_MAX: '2' };
/**
 * libuv's threads, four by default: the file systems of all tasks are waited for in them. Where nothing better works, one
 * more of each task waits for the kernel's events (watch/inotify). libuv has 1024 at most.
 */
const SHARED_THREADS = 8;
const MOST_THREADS = 1024;

export interface StartedSidecar {
  readonly child: ChildProcess;
  /** Resolves with how, once it is gone and its last message is read, or if it could not be started. */
  readonly gone: Promise<string>;
}

/** With a terminal task and sidecar stay in our process group; without one each gets a session of its own. */
export function sharesOurGroup(): boolean {
  return tty.isatty(0);
}

/** Throws if there is no memory for it. `entry` is the module to run. */
export function startSidecar(entry: string): StartedSidecar {
  const args = [`--max-old-space-size=${HEAP_MB}`, ...NODE_FLAGS, entry];
  return started(args, { env: withoutShim(process.env), detached: !sharesOurGroup(), fds: [] });
}

/**
 * One for all tasks that are started by us: it listens at `socket`, for launchers of our user, and keeps `lockFd` open
 * as long as it lives. In a session of its own: what a terminal sends is for us alone.
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
  /** About how many there will be. */
  readonly tasksAtOnce: number;
}

interface Spawning {
  readonly env: NodeJS.ProcessEnv;
  readonly detached: boolean;
  /** Ours that it keeps open. */
  readonly fds: readonly number[];
}

function started(args: readonly string[], { env, detached, fds }: Spawning): StartedSidecar {
  const child = spawn(process.execPath, args, {
    // Only messages for the user go through fd 2; results of a pipeline go through the task's fd 1.
    stdio: ['ignore', 'ignore', 2, 'ipc', ...fds],
    env: { ...FEW_ARENAS, ...env },
    detached,
  });
  return { child, gone: goneOf(child) };
}

/** Not at 'exit': its last message may still be in the channel. Nor at 'close': none comes where we let go of the channel. */
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
