// Whether a file is still in the work directory. "Cannot be looked at" is not "gone": only what the task has removed may
// be missing from a checkpoint set that is called whole.
import { errnoOf } from '../../model/errors.ts';
import type { FileFacts } from '../../model/file/file-state.ts';
import type { RelPath } from '../../model/path.ts';
import { REMOUNTED } from '../../upload/send.ts';
import { lookClosely } from '../../watch/scan.ts';
import type { Needs } from './context.ts';

/** lstat(2) of a regular file or a link. */
export type Presence = FileFacts | 'gone' | Unknown;

/** Nobody can tell whether the file is there. */
export interface Unknown {
  readonly why: string;
}

/** `wasGone`: it was seen that the file is gone. */
export function presenceOf(
  { root, mounts }: Needs<'root' | 'mounts'>,
  path: RelPath,
  wasGone = false,
): Presence {
  const found = lookClosely(root, path);
  if (found === 'gone') return !wasGone && mounts.haveChangedAbove(path) ? { why: REMOUNTED } : 'gone';
  return 'error' in found ? { why: unreadable(found.error) } : found.facts;
}

export function isUnknown(presence: Presence): presence is Unknown {
  return presence !== 'gone' && 'why' in presence;
}

export function unreadable(error: unknown): string {
  return `it cannot be read: ${errnoOf(error) ?? String(error)}`;
}
