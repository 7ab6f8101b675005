// Whether the work directory still stands where it stood: it is the task's right to move or remove it, and what it
// keeps elsewhere is not ours to delete.
import { showPath } from '../../model/path.ts';
import { currentPath, whereabouts } from '../../native/beneath.ts';
import type { Context } from '../run/context.ts';

/** False, with a warning, when the task has moved or removed it. */
export function isInPlace({ root, log }: Context): boolean {
  switch (whereabouts(root)) {
    case 'here':
      return true;
    case 'moved':
      log.warn(
        `the task has moved its work directory to ${showPath(currentPath(root.fd))}: local files stay there`,
      );
      return false;
    case 'removed':
      log.warn('the task has removed its work directory: what was stored before stays stored');
      return false;
  }
}
