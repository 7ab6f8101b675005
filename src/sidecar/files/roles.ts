// Which roles of a file make it something to push.
import type { TrackRole } from '../../core/track.ts';
import type { Roles } from '../../core/manifest.ts';

export function rolesToTrack({ result, checkpoint }: Roles): readonly TrackRole[] {
  return [...(result ? ['result' as const] : []), ...(checkpoint ? ['checkpoint' as const] : [])];
}
