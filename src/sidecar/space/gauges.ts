// What a run says about itself while it goes on, without being asked: that it is behind, and that space runs
// out. Knows the files by what it is told of them, and changes nothing.
import type { Track } from '../../core/track.ts';
import type { RelPath } from '../../core/path.ts';
import type { Context, Root } from '../context.ts';
import { Lag } from '../files/lag.ts';
import { statMember } from '../checkpoints/members.ts';
import type { Results } from '../files/results.ts';
import { Room } from './room.ts';

export interface Gauges {
  /** To be told of every change of a track, with what it was before. */
  changed(track: Track, before: Track): void;
  close(): void;
}

export function openGauges({ root, settings, log, now, paths }: Context, results: Results): Gauges {
  const lag = new Lag(log, now, paths);
  const room = new Room({
    dir: root.path,
    reclaim: settings.reclaim,
    log,
    held: () => ({
      storedBytes: results.copies.bytes,
      waitingBytes: sizeOf(root, lag.paths()),
    }),
  });
  return {
    changed: (track, before) => {
      lag.changed(track);
      if (track.closes > before.closes || (before.pushing && !track.pushing)) room.changed();
    },
    close: () => {
      lag.close();
      room.close();
    },
  };
}

/** Bytes of the files that are there. */
function sizeOf(root: Root, paths: Iterable<RelPath>): number {
  let bytes = 0;
  for (const path of paths) bytes += statMember(root, path)?.size ?? 0;
  return bytes;
}
