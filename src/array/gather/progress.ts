// How far a gathering is: a bar on a terminal, a line a minute in a log. How much there will be nobody knows before the
// records of all indices are read, so what is left is told by the indices that are through.
import type { Log } from '../../log/log.ts';
import { drawnLine, ERASED_LINE } from '../../model/format/progress-line.ts';
import { formatBytes, formatMs, plural } from '../../model/units.ts';
import { numberText } from '../columns.ts';

const DRAWN_EVERY_MS = 250;
const TOLD_EVERY_MS = 60_000;
const BAR_WIDTH = 20;

/** What has been done so far. */
export interface Totals {
  readonly indices: number;
  readonly indicesDone: number;
  /** Downloaded, and there already. */
  readonly files: number;
  /** Downloaded, uncompressed. */
  readonly bytes: number;
}

export interface Progress {
  close(): void;
}

export function openProgress(log: Log, totals: () => Totals): Progress {
  const startedMs = performance.now();
  const line = (): string => gatherLine(totals(), performance.now() - startedMs);
  const { draw } = log;
  const timer =
    draw === undefined
      ? setInterval(() => log.info(line()), TOLD_EVERY_MS)
      : setInterval(() => draw(drawnLine(line())), DRAWN_EVERY_MS);
  return {
    close: () => {
      clearInterval(timer);
      draw?.(ERASED_LINE);
    },
  };
}

/** `[##########          ] 5,120 of 10,000 indices, 25,310 files, 12.3 GiB, 85.0 MiB/s, 5 min left` */
export function gatherLine({ indices, indicesDone, files, bytes }: Totals, elapsedMs: number): string {
  const share = indices === 0 ? 1 : indicesDone / indices;
  const bar = '#'.repeat(Math.floor(share * BAR_WIDTH)).padEnd(BAR_WIDTH);
  const left = share > 0 && share < 1 ? [`${formatMs((elapsedMs * (1 - share)) / share)} left`] : [];
  return [
    `[${bar}] ${numberText(indicesDone)} of ${numberText(indices)} ${indices === 1 ? 'index' : 'indices'}`,
    plural(files, 'file'),
    formatBytes(bytes),
    `${formatBytes(Math.round((bytes / Math.max(1, elapsedMs)) * 1000))}/s`,
    ...left,
  ].join(', ');
}
