// Starts a process of the sidecar. The command line starts the first one before it reads its options: Node takes most of
// the time of a start to begin, and here two of them begin at once. A sidecar waits for its settings, and ends with its
// channel.
import { type ChildProcess, spawn } from 'node:child_process';
import tty from 'node:tty';
import { withoutShim } from './inherited.ts';

/**
 * Its heap stays small: file contents are read in worker threads, outside this limit. Without an initial size V8
 * looks for garbage only when half of the limit is taken, by each thread.
 */
const NODE_FLAGS = ['--max-old-space-size=256', '--initial-old-space-size=16', '--max-semi-space-size=2'];
/** mallopt(3): each of a dozen threads keeping freed memory for itself would take 10 MiB more. */
const FEW_ARENAS = { MALLOC_ARENA_MAX: '2' };

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
  const child = spawn(process.execPath, [...NODE_FLAGS, entry], {
    // Only messages for the user go through fd 2; results of a pipeline go through the task's fd 1.
    stdio: ['ignore', 'ignore', 2, 'ipc'],
    env: { ...FEW_ARENAS, ...withoutShim(process.env) },
    detached: !sharesOurGroup(),
  });
  const gone = new Promise<string>((resolve) => {
    // Not 'exit': its last message may still be in the channel then.
    child.once('close', (code, signal) => child.pid !== undefined && resolve(signal ?? `exit ${code}`));
    child.on('error', (error) => child.pid === undefined && resolve(error.message));
  });
  return { child, gone };
}
