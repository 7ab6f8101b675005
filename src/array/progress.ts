// Progress of an operation on all indices: a line that is redrawn on a terminal, or logged now and then.
import type { Log } from '../log/log.ts';
import { drawnLine, ERASED_LINE } from '../model/format/progress-line.ts';
import { formatMs } from '../model/units.ts';
import { numberText } from './columns.ts';

const DRAWN_EVERY_MS = 250;
/** Progress lines of a long operation become rarer: the next one comes after a tenth of the time so far. */
const TOLD_AFTER_MS = { least: 60_000, most: 3_600_000, share: 0.1 };
const BAR_WIDTH = 20;

export interface Progress {
  close(): void;
}

/** `line` is called for each update. */
export function openProgress(log: Log, line: (elapsedMs: number) => string): Progress {
  const startedMs = performance.now();
  const now = (): string => line(performance.now() - startedMs);
  const { draw } = log;
  if (draw === undefined) return tellNowAndThen(() => log.info(now()));
  const timer = setInterval(() => draw(drawnLine(now())), DRAWN_EVERY_MS);
  return {
    close: () => {
      clearInterval(timer);
      draw(ERASED_LINE);
    },
  };
}

/** Calls `tell` once a minute, and after ten minutes more and more rarely, down to once an hour. */
export function tellNowAndThen(tell: () => void): Progress {
  const startedMs = performance.now();
  let timer: NodeJS.Timeout | undefined;
  const wait = (): void => {
    const { least, most, share } = TOLD_AFTER_MS;
    const pauseMs = Math.min(most, Math.max(least, (performance.now() - startedMs) * share));
    timer = setTimeout(() => {
      tell();
      wait();
    }, pauseMs);
  };
  wait();
  return { close: () => clearTimeout(timer) };
}

/** `[##########          ] 5,120 of 10,000 indices`, and the time that is left: `5 min left`. */
export function indicesDone(
  { done, of }: { readonly done: number; readonly of: number },
  elapsedMs: number,
): { readonly bar: string; readonly left: readonly string[] } {
  const share = of === 0 ? 1 : done / of;
  const bar = '#'.repeat(Math.floor(share * BAR_WIDTH)).padEnd(BAR_WIDTH);
  return {
    bar: `[${bar}] ${numberText(done)} of ${numberText(of)} ${of === 1 ? 'index' : 'indices'}`,
    left: share > 0 && share < 1 ? [`${formatMs((elapsedMs * (1 - share)) / share)} left`] : [],
  };
}
