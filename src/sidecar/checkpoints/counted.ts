// Which closes of checkpoint members count as a step of their round. Each content counts once: what a scan or
// a rename finds may have a writer, whose close is still to come.
import type { ClosedHow } from '../../model/file/events.ts';
import { sameFingerprint, type FileFacts } from '../../model/file/fingerprint.ts';
import type { RelPath } from '../../model/path.ts';
import type { WorkDir } from '../../native/work-dir.ts';
import { statMember } from '../run/local-file.ts';
import { collectStates } from './members.ts';

/** Asked once for each close, in their order. */
export function openCounted(root: WorkDir): (path: RelPath, how: ClosedHow) => boolean {
  /** States that a scan has told: their close event may come after it. */
  const scanned = new Map<RelPath, FileFacts>();
  return (path, how) => {
    if (how === 'close') {
      const state = scanned.get(path);
      scanned.delete(path);
      const now = state === undefined ? undefined : statMember(root, path);
      return state === undefined || now === undefined || !sameFingerprint(state, now);
    }
    const collected = collectStates(root, [path]);
    if (collected.kind === 'busy') return false;
    const state = collected.states.get(path);
    if (how === 'scan' && state !== undefined) scanned.set(path, state);
    return true;
  };
}
