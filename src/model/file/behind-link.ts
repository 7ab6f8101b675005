// What a symbolic link means for a declared file that it hides, or that it is. Pure: judged by names alone.
import type { RelPath } from '../path.ts';
import { type Manifest, type Roles, rolesToStore } from './manifest.ts';

type RoleToStore = Exclude<keyof Roles, 'input'>;

export const TO_STORE: readonly RoleToStore[] = ['result', 'checkpoint', 'companion'];

/**
 * Says of the file at `path`, which is behind a link to a directory, whether it has one of the roles and is not stored.
 * `real` is its path without the link; undefined: it is outside the work directory. If that path has the same roles, the
 * file is stored under it. But a name without a wildcard is expected as it is.
 */
export function lostBehindLinks(
  manifest: Manifest,
  roles: readonly RoleToStore[],
): (path: RelPath, real: RelPath | undefined) => boolean {
  const { results, checkpoints, companions } = manifest.exact;
  const names = new Set([...results, ...checkpoints, ...companions]);
  return (path, real) => {
    const declared = manifest.rolesOf(path);
    if (!roles.some((role) => declared[role])) return false;
    if (real === undefined) return true;
    if (manifest.isExcluded(real)) return false;
    const there = manifest.rolesOf(real);
    return names.has(path) || roles.some((role) => declared[role] && !there[role]);
  };
}

/** True if a link at `path`, which is stored as a link, leads to something that is not declared. */
export function leadsToUndeclared(manifest: Manifest, path: RelPath, real: RelPath): boolean {
  const isStored = (one: RelPath): boolean => rolesToStore(manifest.rolesOf(one)).length > 0;
  return isStored(path) && !isStored(real) && !manifest.canHold(real);
}
