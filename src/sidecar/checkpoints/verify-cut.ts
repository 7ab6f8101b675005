// Before a commit, if the user asks for it: runs the check on the set in the work directory, and believes it only if
// nothing changed meanwhile.
import { generationName } from '../../model/checkpoint/history.ts';
import type { StoredFile } from '../../model/format/records.ts';
import { whileLinked } from '../../model/waiting.ts';
import { heldPath } from '../../native/beneath.ts';
import type { Needs } from '../run/context.ts';
import type { Checkpoints } from './checkpoints.ts';
import type { Marks } from './commit.ts';
import { collectStates } from './members.ts';
import { verify } from './verify.ts';

/** What it takes of the run. */
type Uses = Needs<'settings' | 'root' | 'attempt' | 'signal'>;

/** The set is not committed. `moved`: the task went on before the check ended; the next set may be committed. */
export class CutRefused extends Error {
  readonly moved: boolean;

  constructor(why: string | undefined) {
    super(why ?? 'it changed while --verify-checkpoint looked at it');
    this.name = 'CutRefused';
    this.moved = why === undefined;
  }
}

/**
 * Resolves to the marks for the generation. Throws {@link CutRefused}, or when `until` aborts. The last cut is never
 * refused: it is marked suspect if it does not pass in time, and not marked if it passes.
 */
export type VerifyCut = (
  members: readonly StoredFile[],
  generation: number,
  marks: Marks,
  until: { readonly signal: AbortSignal; readonly isLast: boolean },
) => Promise<Verified>;

/** `refused`: why the last set is suspect, as nothing but its check says so. */
export interface Verified {
  readonly marks: Marks;
  readonly refused?: string;
}

export function openVerifyCut(context: Uses, checkpoints: Checkpoints): VerifyCut {
  const { settings, root, attempt, signal } = context;
  if (settings.verify?.atCommit !== true) return async (_members, _generation, marks) => ({ marks });
  const { command } = settings.verify;
  let passed = '';

  const stands = (members: readonly StoredFile[]): boolean => {
    const now = collectStates(
      root,
      members.map(({ path }) => path),
    );
    if (now.kind === 'busy') return false;
    return members.every(({ path, key }) => {
      const state = now.states.get(path);
      return state !== undefined && checkpoints.objectOf(path, state)?.key === key;
    });
  };
  const check = async (
    members: readonly StoredFile[],
    generation: number,
    until: AbortSignal,
  ): Promise<void> => {
    const keys = members.map(({ key }) => key).join('\n');
    // If the set passed and the store refused its record, it is not checked again.
    if (keys === passed) return;
    if (!stands(members)) throw new CutRefused(undefined);
    const name = generationName({ attempt, generation });
    const why = await verify({ command, workdir: heldPath(root), generation: name, signal: until });
    if (!stands(members)) throw new CutRefused(undefined);
    if (why !== undefined) throw new CutRefused(why);
    passed = keys;
  };
  return async (members, generation, marks, until) => {
    if (members.length === 0) return { marks };
    try {
      await whileLinked([signal, until.signal], (either) => check(members, generation, either));
      return { marks: { ...marks, suspect: undefined, instant: undefined, unproven: undefined } };
    } catch (error) {
      if (!until.isLast || signal.aborted) throw error;
      const why = error instanceof CutRefused ? error.message : 'no time was left for --verify-checkpoint';
      return { marks: { ...marks, suspect: true }, refused: why };
    }
  };
}
