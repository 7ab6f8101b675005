// After a sidecar died: is a local file the one that is stored, or what the task made after that was reclaimed?
import type { StoredFile } from '../../model/format/records.ts';
import type { Context } from '../run/context.ts';
import { bornNsOf } from '../run/local-file.ts';

/**
 * True when the sidecar that this one replaces may have reclaimed the file: what stands there now was made after
 * what is stored was written (statx(2), stx_btime; 0 where the file system does not know it).
 */
export function isMadeAnew(
  { resumed, reclaimer, attempt, root }: Context,
  known: StoredFile | undefined,
  isOurs: boolean,
): boolean {
  if (!resumed || reclaimer === undefined || known?.attempt !== attempt || isOurs) return false;
  const bornNs = bornNsOf(root, known.path);
  return bornNs === 0n || bornNs > BigInt(known.mtimeNs);
}
