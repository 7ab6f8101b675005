// Which checkpoints may be deleted from the work directory at the end of the run, beside stored results: those that a
// good generation holds exactly as they are, and that nobody needs here. None if the directory is not where it was.
import { isGood } from '../../model/checkpoint/restore-order.ts';
import { sameFingerprint } from '../../model/file/file-state.ts';
import { showPath } from '../../model/path.ts';
import { currentPath, whereabouts } from '../../native/beneath.ts';
import type { Checkpoints } from '../checkpoints/checkpoints.ts';
import type { Generations } from '../checkpoints/generations.ts';
import type { Files } from '../queue/files.ts';
import type { Reclaimable } from '../queue/results.ts';
import type { Needs } from '../run/context.ts';
import { statMember } from '../run/local-file.ts';

/** What it takes of the run. */
type Uses = Needs<'manifest' | 'root' | 'log' | 'ledger'>;

export interface ReclaimableParts {
  readonly context: Needs<'ledger' | 'manifest' | 'root'>;
  readonly files: Pick<Files, 'get'>;
  readonly generations: Pick<Generations, 'members'>;
  readonly checkpoints: Pick<Checkpoints, 'objectOf'>;
}

export function checkpointsToReclaim({
  context,
  files,
  generations,
  checkpoints,
}: ReclaimableParts): readonly Reclaimable[] {
  const good = context.ledger.generations.filter(isGood);
  const named = new Set(good.flatMap(({ members }) => members.map(({ key }) => key)));
  return generations.members().flatMap((path) => {
    const facts = statMember(context.root, path);
    const object = facts === undefined ? undefined : checkpoints.objectOf(path, facts);
    if (facts === undefined || object === undefined || !named.has(object.key)) return [];
    // If it was restored and not touched since, or is somebody's input, it stays.
    const closes = files.get(path, 'checkpoint')?.closes ?? 0;
    const roles = context.manifest.rolesOf(path);
    if (closes === 0 || roles.input) return [];
    const result = files.get(path, 'result')?.durable?.fingerprint;
    if (roles.result && (result === undefined || !sameFingerprint(result, facts))) return [];
    return [{ path, fingerprint: facts, isOurs: true }];
  });
}

/** False, with a warning, if the task has moved or removed it. */
export function isInPlace({ root, log }: Uses): boolean {
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
