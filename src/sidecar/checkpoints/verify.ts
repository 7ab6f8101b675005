// The user's own check of a set of checkpoint files (`--verify-checkpoint`). It runs in the work directory before a
// commit, and after a restore. It never runs longer than its time limit, and its output never mixes with the task's.
import { type ChildProcess, spawn } from 'node:child_process';
import { generationName } from '../../model/checkpoint/history.ts';
import { reasonOf } from '../../model/errors.ts';
import type { StoredFile } from '../../model/format/records.ts';
import { formatMs } from '../../model/units.ts';
import { whileLinked } from '../../model/waiting.ts';
import { heldPath } from '../../native/beneath.ts';
import { endOfChild } from '../../native/ended.ts';
import type { Caller, Needs } from '../run/context.ts';
import type { Checkpoints } from './checkpoints.ts';
import type { Marks } from './generation-record.ts';
import { collectStates } from './cutting.ts';

type CheckContext = Needs<'root' | 'mounts' | 'attempt' | 'signal' | 'caller'>;

/** The set is not committed. `moved`: the task changed a file before the check ended; the next set may be committed. */
export class CutRefused extends Error {
  readonly moved: boolean;

  constructor(why: string | undefined) {
    super(why ?? 'it changed while --verify-checkpoint looked at it');
    this.name = 'CutRefused';
    this.moved = why === undefined;
  }
}

/** How long the check of a cut may run. */
export interface Until {
  readonly signal: AbortSignal;
  readonly isLast: boolean;
}

/** `refused`: why the last set is suspect, if only its check says so. */
export interface Verified {
  readonly marks: Marks;
  readonly refused?: string;
}

/** Before a commit, if the user asks for it. A check counts only if no file changed while it ran. */
export class CutCheck {
  readonly #context: CheckContext;
  readonly #command: string;
  readonly #checkpoints: Pick<Checkpoints, 'objectOf'>;
  /** The keys of the set that passed. */
  #passed = '';

  constructor(context: CheckContext, command: string, checkpoints: Pick<Checkpoints, 'objectOf'>) {
    this.#context = context;
    this.#command = command;
    this.#checkpoints = checkpoints;
  }

  /**
   * Resolves to the marks for the generation. Throws {@link CutRefused}, or if `until` aborts. The last cut is never
   * refused: it is marked suspect if it does not pass in time, and not marked if it passes.
   */
  async verified(
    members: readonly StoredFile[],
    generation: number,
    marks: Marks,
    until: Until,
  ): Promise<Verified> {
    const { signal } = this.#context;
    if (members.length === 0) return { marks };
    try {
      await whileLinked([signal, until.signal], (either) => this.#check(members, generation, either));
      return { marks: { ...marks, suspect: undefined, instant: undefined, unproven: undefined } };
    } catch (error) {
      if (!until.isLast || signal.aborted) throw error;
      const why = error instanceof CutRefused ? error.message : 'no time was left for --verify-checkpoint';
      return { marks: { ...marks, suspect: true }, refused: why };
    }
  }

  async #check(members: readonly StoredFile[], generation: number, until: AbortSignal): Promise<void> {
    const { root, attempt, caller } = this.#context;
    const keys = members.map(({ key }) => key).join('\n');
    // If the set passed and the store refused its record, it is not checked again.
    if (keys === this.#passed) return;
    if (!this.#stands(members)) throw new CutRefused(undefined);
    const name = generationName({ attempt, generation });
    const job = { command: this.#command, workdir: heldPath(root), generation: name, caller, signal: until };
    const why = await verify(job);
    if (!this.#stands(members)) throw new CutRefused(undefined);
    if (why !== undefined) throw new CutRefused(why);
    this.#passed = keys;
  }

  #stands(members: readonly StoredFile[]): boolean {
    const now = collectStates(
      this.#context,
      members.map(({ path }) => path),
    );
    if (now.kind === 'busy') return false;
    return members.every(({ path, key }) => {
      const state = now.states.get(path);
      return state !== undefined && this.#checkpoints.objectOf(path, state)?.key === key;
    });
  }
}

/** A check reads one checkpoint; one that takes longer than this hangs. */
const LIMIT_MS = 600_000;

export interface VerifyJob {
  readonly command: string;
  /** Absolute path. */
  readonly workdir: string;
  /** `<attempt>-<generation>`: CAPTURED_GENERATION for the command. */
  readonly generation: string;
  readonly caller: Caller;
  readonly limitMs?: number;
  readonly signal: AbortSignal;
}

/**
 * Undefined if the set is good, else why it is not, as in `its check ended with 3`. Throws the signal's reason if it
 * aborts, and an error if no shell could be started.
 */
export async function verify(job: VerifyJob): Promise<string | undefined> {
  const { command, workdir, generation, caller, limitMs = LIMIT_MS, signal } = job;
  signal.throwIfAborted();
  const child = spawn('/bin/sh', ['-c', command], {
    cwd: workdir,
    env: { ...caller.env, CAPTURED_GENERATION: generation },
    stdio: ['ignore', 'ignore', caller.stderr],
    // A process group of its own, so that everything it starts can be killed with it.
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
