// What a restore does if a file of that name is already in the work directory. Pure: the restore stage looks, this
// decides.

/** `same`: the bytes of the stored file. `differs`: anything else of that name. */
export type LocalState = 'absent' | 'same' | 'differs';

/** `input`: the user staged it. `resumed`: a checkpoint, or a result that is an input and was stored earlier. */
export type RestoreRole = 'input' | 'resumed';

/** `replace`: fetch, and move the local file aside before the stored one is placed. */
export type LocalDecision = 'fetch' | 'keep' | 'replace';

export interface LocalQuestion {
  readonly role: RestoreRole;
  readonly local: LocalState;
  /** The local file was modified after the stored one; false if that is not known. */
  readonly localIsNewer: boolean;
  readonly onLocal: 'stored' | 'newest';
}

export function decideLocal({ role, local, localIsNewer, onLocal }: LocalQuestion): LocalDecision {
  if (local === 'absent') return 'fetch';
  if (local === 'same' || role === 'input') return 'keep';
  return onLocal === 'newest' && localIsNewer ? 'keep' : 'replace';
}
