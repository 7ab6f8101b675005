// Which local checkpoints may go at the end of the run: those that a good generation holds exactly as they
// stand, and that nobody needs here.
import { isGood } from '../../model/checkpoint/restore-order.ts';
import { sameFingerprint } from '../../model/file/fingerprint.ts';
import type { Checkpoints } from '../checkpoints/checkpoints.ts';
import type { Generations } from '../checkpoints/generations.ts';
import type { Files } from '../queue/files.ts';
import type { Reclaimable } from '../queue/results.ts';
import type { Context } from '../run/context.ts';
import { statMember } from '../run/local-file.ts';

export interface ReclaimableParts {
  readonly context: Pick<Context, 'ledger' | 'manifest' | 'root'>;
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
    // Restored and not touched since, or somebody's input: it stays.
    const closes = files.get(path, 'checkpoint')?.closes ?? 0;
    const roles = context.manifest.rolesOf(path);
    if (closes === 0 || roles.input) return [];
    const result = files.get(path, 'result')?.durable?.fingerprint;
    if (roles.result && (result === undefined || !sameFingerprint(result, facts))) return [];
    return [{ path, fingerprint: facts, isOurs: true }];
  });
}
