// How far a gathering is, in one line. How much there will be nobody knows before the records of all indices are read,
// so what is left is told by the indices that are through. Pure.
import { formatBytes, plural } from '../../model/units.ts';
import { indicesDone } from '../progress.ts';

/** What has been done so far. */
export interface Totals {
  readonly indices: number;
  readonly indicesDone: number;
  /** Downloaded, and there already. */
  readonly files: number;
  /** Downloaded, uncompressed. */
  readonly bytes: number;
}

/** `[##########          ] 5,120 of 10,000 indices, 25,310 files, 12.3 GiB, 85.0 MiB/s, 5 min left` */
export function gatherLine({ indices, indicesDone: done, files, bytes }: Totals, elapsedMs: number): string {
  const { bar, left } = indicesDone({ done, of: indices }, elapsedMs);
  return [
    bar,
    plural(files, 'file'),
    formatBytes(bytes),
    `${formatBytes(Math.round((bytes / Math.max(1, elapsedMs)) * 1000))}/s`,
    ...left,
  ].join(', ');
}
