// Which roles of a file make it something to push.
import type { FileRole } from '../../model/file/file-state.ts';
import type { Roles } from '../../model/file/manifest.ts';

export function rolesToStore({ result, checkpoint }: Roles): readonly FileRole[] {
  return [...(result ? ['result' as const] : []), ...(checkpoint ? ['checkpoint' as const] : [])];
}
