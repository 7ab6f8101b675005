// Which roles of a file make it something to push.
import type { TrackRole } from '../../model/file/file-state.ts';
import type { Roles } from '../../model/file/manifest.ts';

export function rolesToTrack({ result, checkpoint }: Roles): readonly TrackRole[] {
  return [...(result ? ['result' as const] : []), ...(checkpoint ? ['checkpoint' as const] : [])];
}
