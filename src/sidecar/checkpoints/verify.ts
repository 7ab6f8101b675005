// The user's own check of a set of checkpoint files (`--verify-checkpoint`), run in the work directory. It never runs
// longer than its time limit, and its output never goes where the task's results go.
import { type ChildProcess, spawn } from 'node:child_process';
import { reasonOf } from '../../model/errors.ts';
import { formatMs } from '../../model/units.ts';
import { endOfChild } from '../../native/ended.ts';

/** A check reads one checkpoint; one that takes longer than this hangs. */
const LIMIT_MS = 600_000;

export interface VerifyJob {
  readonly command: string;
  /** Absolute path. */
  readonly workdir: string;
  /** `<attempt>-<generation>`: CAPTURED_GENERATION for the command. */
  readonly generation: string;
  readonly limitMs?: number;
  readonly signal: AbortSignal;
}

/**
 * Undefined if the set is good, else why it is not, as `its check ended with 3`. Throws the signal's reason if that
 * aborts, and if no shell could be started.
 */
export async function verify(job: VerifyJob): Promise<string | undefined> {
  const { command, workdir, generation, limitMs = LIMIT_MS, signal } = job;
  signal.throwIfAborted();
  const child = spawn('/bin/sh', ['-c', command], {
    cwd: workdir,
    env: { ...process.env, CAPTURED_GENERATION: generation },
    stdio: ['ignore', 'ignore', 2],
    // A process group of its own, so that everything it starts can be ended with it.
    detached: true,
  });
  let isLate = false;
  const kill = (): void => killGroup(child);
  const limit = setTimeout(() => {
    isLate = true;
    kill();
  }, limitMs);
  signal.addEventListener('abort', kill, { once: true });
  try {
    const ended = await endOfChild(child);
    signal.throwIfAborted();
    if (isLate) return `its check took longer than ${formatMs(limitMs)}`;
    if (ended.code === 0) return undefined;
    return ended.code === undefined
      ? `its check was ended by ${ended.signal}`
      : `its check ended with ${ended.code}`;
  } catch (error) {
    signal.throwIfAborted();
    throw new Error(`cannot run --verify-checkpoint: ${reasonOf(error)}`, { cause: error });
  } finally {
    clearTimeout(limit);
    signal.removeEventListener('abort', kill);
  }
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It ended at this moment.
  }
}
