// What a person sees while the array runs: on a terminal the numbers and the tasks, drawn again and again below the
// messages; in a log one line a minute.
import { createLogUpdate } from 'log-update';
import { type Column, fitted, numberText, tableLines } from '../array/columns.ts';
import type { Log } from '../log/log.ts';
import { etaMs, type Durations } from '../model/many/eta.ts';
import type { RunningTask } from '../model/many/admission.ts';
import type { LifeNumbers } from '../model/format/shared-sidecar.ts';
import type { Plan } from '../model/many/plan.ts';
import { formatAge, formatBytes, formatMs } from '../model/units.ts';
import { clockMs } from '../native/clock.ts';

const DRAWN_EVERY_MS = 500;
const TOLD_EVERY_MS = 60_000;
const BAR_WIDTH = 30;
/** Where the terminal does not say how large it is. */
const SIZE: Size = { rows: 24, columns: 80 };

const COLUMNS: readonly Column[] = [
  { title: 'index', align: 'right' },
  { title: 'for', align: 'right' },
  { title: 'memory', align: 'right' },
  { title: '', align: 'left' },
];

export interface Shown {
  readonly plan: Plan;
  readonly durations: Durations;
  readonly running: () => readonly RunningTask[];
  /** Of all tasks together. */
  readonly numbers: () => LifeNumbers;
}

export interface Size {
  readonly rows: number;
  readonly columns: number;
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
      if (now !== undefined) log.info(progressText(now), { ...now.numbers() });
    }, TOLD_EVERY_MS);
    return { log, close: () => clearInterval(timer) };
  }
  const draw = createLogUpdate(process.stderr, { showCursor: true });
  const redraw = (): void => {
    const now = shown();
    if (now !== undefined) draw(drawnLines(now, { ...SIZE, ...sizeOf(process.stderr) }).join('\n'));
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

/** `62 of 100 done, 8 running, 28 waiting, 2 failed; 2.1 GiB stored, behind by 300 ms; 4 min 20 s left` */
export function progressText(shown: Shown): string {
  const left = leftText(shown);
  return [
    [doneText(shown), ...restTexts(shown)].join(', '),
    ...storedText(shown.numbers()),
    ...(left === undefined ? [] : [left]),
  ].join('; ');
}

function doneText({ plan }: Shown): string {
  const { done, doneAlready } = plan.counts();
  return `${numberText(done + doneAlready)} of ${numberText(plan.size)} done`;
}

function restTexts({ plan }: Shown): readonly string[] {
  const { waiting, running, failed, fenced } = plan.counts();
  return [
    ...(running > 0 ? [`${numberText(running)} running`] : []),
    ...(waiting > 0 ? [`${numberText(waiting)} waiting`] : []),
    ...(failed > 0 ? [`${numberText(failed)} failed`] : []),
    ...(fenced > 0 ? [`${numberText(fenced)} in other attempts`] : []),
  ];
}

function leftText({ plan, durations, running }: Shown): string | undefined {
  const { waiting, running: runs } = plan.counts();
  if (waiting + runs === 0) return undefined;
  const nowMs = clockMs();
  const left = etaMs({
    medianMs: durations.medianMs(),
    runningMs: running().map(({ startedMs }) => nowMs - startedMs),
    waiting,
    atOnce: runs,
  });
  return left === undefined ? undefined : `${formatMs(left)} left`;
}

/** `2.1 GiB stored, behind by 300 ms`, or nothing. */
export function storedText({ storedBytes, lagMs }: LifeNumbers): readonly string[] {
  const stored = storedBytes > 0 ? [`${formatBytes(storedBytes)} stored`] : [];
  const behind = lagMs > 0 ? [`behind by ${formatMs(lagMs)}`] : [];
  const both = [...stored, ...behind].join(', ');
  return both === '' ? [] : [both];
}

/**
 * What fits the terminal: what has scrolled away cannot be drawn over. The lines are short in a wide one, too: if it
 * becomes narrower, long ones break, and nobody knows how many there are then.
 */
export function drawnLines(shown: Shown, { rows, columns }: Size): readonly string[] {
  const left = leftText(shown);
  const head = [
    barText(shown),
    `${doneText(shown)}${left === undefined ? '' : `; ${left}`}`,
    restTexts(shown).join(', '),
    ...storedText(shown.numbers()),
  ];
  const tasks = shown.running();
  const most = Math.max(1, rows - head.length - 3);
  const more = tasks.length > most ? [`  and ${numberText(tasks.length - most)} more`] : [];
  const table = tasks.length === 0 ? [] : [...taskLines(tasks.slice(0, most)), ...more];
  return fitted([...head, ...table], columns, rows);
}

function barText({ plan }: Shown): string {
  const { done, doneAlready } = plan.counts();
  const share = (done + doneAlready) / Math.max(1, plan.size);
  const bar = '#'.repeat(Math.floor(share * BAR_WIDTH)).padEnd(BAR_WIDTH);
  return `[${bar}] ${Math.floor(share * 100)} %`;
}

function taskLines(tasks: readonly RunningTask[]): readonly string[] {
  const nowMs = clockMs();
  const cells = tasks.map(({ index, startedMs, usedBytes, isEnding }) => [
    String(index),
    formatAge(nowMs - startedMs),
    usedBytes === 0 ? '' : formatBytes(usedBytes),
    isEnding ? 'ends' : '',
  ]);
  return tableLines(COLUMNS, cells, Infinity).map((line) => `  ${line}`);
}

function sizeOf({ rows, columns }: NodeJS.WriteStream): Partial<Size> {
  // Zero is what a terminal says that does not know.
  return { ...(rows > 0 ? { rows } : {}), ...(columns > 0 ? { columns } : {}) };
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
