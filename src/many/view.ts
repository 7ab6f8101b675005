// What a person sees while the array runs: on a terminal the numbers and the tasks, drawn again and again below the
// messages; in a log one line a minute.
import { createLogUpdate } from 'log-update';
import { numberText } from '../array/columns.ts';
import type { Log } from '../log/log.ts';
import { etaMs, type Durations } from '../model/many/eta.ts';
import type { RunningTask } from '../model/many/admission.ts';
import type { Plan } from '../model/many/plan.ts';
import { formatAge, formatBytes, formatMs } from '../model/units.ts';
import { clockMs } from '../native/clock.ts';

const DRAWN_EVERY_MS = 500;
const TOLD_EVERY_MS = 60_000;
const BAR_WIDTH = 30;
/** Lines that the numbers take. */
const HEAD_LINES = 3;
/** Where the terminal does not say how high it is. */
const ROWS = 24;

export interface Shown {
  readonly plan: Plan;
  readonly durations: Durations;
  readonly running: () => readonly RunningTask[];
}

export interface View {
  /** To be used while the view is open: a message stands above what is drawn. */
  readonly log: Log;
  close(): void;
}

export function openView(log: Log, shown: () => Shown | undefined): View {
  if (log.draw === undefined) {
    const timer = setInterval(() => {
      const now = shown();
      if (now !== undefined) log.info(progressText(now));
    }, TOLD_EVERY_MS);
    return { log, close: () => clearInterval(timer) };
  }
  const draw = createLogUpdate(process.stderr, { showCursor: true });
  const redraw = (): void => {
    const now = shown();
    if (now !== undefined) draw(drawnText(now, process.stderr.rows ?? ROWS));
  };
  const timer = setInterval(redraw, DRAWN_EVERY_MS);
  return {
    log: above(log, () => draw.clear(), redraw),
    close: () => {
      clearInterval(timer);
      draw.clear();
    },
  };
}

/** `62 of 100 done, 8 running, 28 waiting, 2 failed; 4 min 20 s left` */
export function progressText({ plan, durations, running }: Shown): string {
  const { waiting, running: runs, done, doneAlready, failed, fenced } = plan.counts();
  const parts = [
    `${numberText(done + doneAlready)} of ${numberText(plan.size)} done`,
    ...(runs > 0 ? [`${runs} running`] : []),
    ...(waiting > 0 ? [`${numberText(waiting)} waiting`] : []),
    ...(failed > 0 ? [`${numberText(failed)} failed`] : []),
    ...(fenced > 0 ? [`${numberText(fenced)} in other attempts`] : []),
  ];
  const nowMs = clockMs();
  const left = etaMs({
    medianMs: durations.medianMs(),
    runningMs: running().map(({ startedMs }) => nowMs - startedMs),
    waiting,
    atOnce: runs,
  });
  const isOver = waiting + runs === 0;
  return `${parts.join(', ')}${left === undefined || isOver ? '' : `; ${formatMs(left)} left`}`;
}

/** At most so many lines: one that has scrolled away cannot be drawn again. */
export function drawnText(shown: Shown, rows: number): string {
  const { done, doneAlready } = shown.plan.counts();
  const share = (done + doneAlready) / Math.max(1, shown.plan.size);
  const bar = '#'.repeat(Math.floor(share * BAR_WIDTH)).padEnd(BAR_WIDTH);
  const nowMs = clockMs();
  const all = shown.running();
  const fitting = all.slice(0, Math.max(1, rows - HEAD_LINES - 1));
  const lines = fitting.map(
    ({ index, startedMs, usedBytes, isEnding }) =>
      `  ${[
        String(index).padStart(8),
        formatAge(nowMs - startedMs).padStart(6),
        (usedBytes === 0 ? '' : formatBytes(usedBytes)).padStart(10),
        isEnding ? 'ends' : '',
      ]
        .join('  ')
        .trimEnd()}`,
  );
  const more = all.length > fitting.length ? [`  and ${all.length - fitting.length} more`] : [];
  return [`[${bar}] ${progressText(shown)}`, '     index     for      memory', ...lines, ...more].join('\n');
}

function above(log: Log, clear: () => void, redraw: () => void): Log {
  const at =
    (say: Log['info']): Log['info'] =>
    (message, fields) => {
      clear();
      say(message, fields);
      redraw();
    };
  return { ...log, debug: at(log.debug), info: at(log.info), warn: at(log.warn), error: at(log.error) };
}
