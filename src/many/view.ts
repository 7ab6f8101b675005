// What a user sees while a worker runs. On a terminal: the counts and the tasks, redrawn below the messages. In a log:
// one line a minute, later fewer.
import { createLogUpdate } from 'log-update';
import { type Column, fitted, numberText, tableLines } from '../array/columns.ts';
import { tellNowAndThen } from '../array/progress.ts';
import type { Log } from '../log/log.ts';
import type { LifeNumbers } from '../model/format/shared-sidecar.ts';
import type { RunningTask } from '../model/many/admission.ts';
import { etaMs } from '../model/many/eta.ts';
import { formatAge, formatBytes, formatMs } from '../model/units.ts';
import { clockMs } from '../native/clock.ts';
import type { OutcomeCounts } from './outcomes.ts';

const DRAWN_EVERY_MS = 500;
const BAR_WIDTH = 30;
/** Used if the terminal does not report its size. */
const SIZE: Size = { rows: 24, columns: 80 };

/** Columns after the task's name. */
const COLUMNS: readonly Column[] = [
  { title: 'for', align: 'right' },
  { title: 'memory', align: 'right' },
  { title: '', align: 'left' },
];

/** The progress of a worker. */
export interface Progress {
  /** Counts of this run. */
  readonly counts: OutcomeCounts;
  /** Undefined for a queue, which has no end. */
  readonly array: ArrayProgress | undefined;
  readonly running: readonly ShownTask[];
  /** Median duration of the tasks that are done; undefined if none is. */
  readonly medianMs: number | undefined;
  /** Totals of all tasks. */
  readonly numbers: LifeNumbers;
}

export interface ShownTask extends RunningTask {
  readonly task: { readonly label: string };
}

export interface ArrayProgress {
  readonly size: number;
  /** Done before this run. */
  readonly doneAlready: number;
  readonly waiting: number;
}

export interface Size {
  readonly rows: number;
  readonly columns: number;
}

export interface View {
  /** The log to use while the view is open: it prints messages above the drawn lines. */
  readonly log: Log;
  close(): void;
}

/** `progress` is undefined before anything runs. */
export function openView(log: Log, progress: () => Progress | undefined): View {
  if (log.draw === undefined) {
    const { close } = tellNowAndThen(() => {
      const now = progress();
      if (now !== undefined) log.info(progressText(now), { ...now.numbers });
    });
    return { log, close };
  }
  const draw = createLogUpdate(process.stderr, { showCursor: true });
  let isOpen = true;
  const redraw = (): void => {
    const now = isOpen ? progress() : undefined;
    if (now !== undefined) draw(drawnLines(now, { ...SIZE, ...sizeOf(process.stderr) }).join('\n'));
  };
  const timer = setInterval(redraw, DRAWN_EVERY_MS);
  return {
    log: above(log, () => draw.clear(), redraw),
    close: () => {
      isOpen = false;
      clearInterval(timer);
      draw.clear();
    },
  };
}

/** `62 of 100 done, 8 running, 28 waiting, 2 failed; 2.1 GiB stored, behind by 300 ms; 4 min 20 s left` */
export function progressText(progress: Progress): string {
  return [
    [doneText(progress), ...restTexts(progress)].join(', '),
    ...storedText(progress.numbers),
    ...leftText(progress),
  ].join('; ');
}

function doneText({ counts, array }: Progress): string {
  if (array === undefined) return `${numberText(counts.done)} done here`;
  return `${numberText(counts.done + array.doneAlready)} of ${numberText(array.size)} done`;
}

function restTexts({ counts, array, running }: Progress): readonly string[] {
  const { failed, fenced, givenBack } = counts;
  const numbers = [
    [running.length, 'running'],
    [array?.waiting ?? 0, 'waiting'],
    [failed, 'failed'],
    [fenced, 'in other attempts'],
    // Given-back tasks of an array wait here, so they are counted as waiting.
    [array === undefined ? givenBack : 0, 'given back'],
  ] as const;
  return numbers.flatMap(([number, what]) => (number > 0 ? `${numberText(number)} ${what}` : []));
}

/** `4 min 20 s left`, or an empty list. */
function leftText({ array, running, medianMs }: Progress): readonly string[] {
  if (array === undefined || array.waiting + running.length === 0) return [];
  const nowMs = clockMs();
  const left = etaMs({
    medianMs,
    runningMs: running.map(({ startedMs }) => nowMs - startedMs),
    waiting: array.waiting,
    atOnce: running.length,
  });
  return left === undefined ? [] : [`${formatMs(left)} left`];
}

/** `2.1 GiB stored, behind by 300 ms`, or an empty list. */
function storedText({ storedBytes, lagMs }: LifeNumbers): readonly string[] {
  const stored = storedBytes > 0 ? [`${formatBytes(storedBytes)} stored`] : [];
  const behind = lagMs > 0 ? [`behind by ${formatMs(lagMs)}`] : [];
  const both = [...stored, ...behind].join(', ');
  return both === '' ? [] : [both];
}

/**
 * The lines that fit the terminal, because lines that have scrolled away cannot be redrawn. Lines stay short on a wide
 * terminal, too: if it becomes narrower, long lines wrap, and their number is no longer known.
 */
export function drawnLines(progress: Progress, { rows, columns }: Size): readonly string[] {
  const rest = restTexts(progress);
  const head = [
    ...barText(progress),
    [doneText(progress), ...leftText(progress)].join('; '),
    ...(rest.length === 0 ? [] : [rest.join(', ')]),
    ...storedText(progress.numbers),
  ];
  const tasks = progress.running;
  const most = Math.max(1, rows - head.length - 3);
  const more = tasks.length > most ? [`  and ${numberText(tasks.length - most)} more`] : [];
  const table =
    tasks.length === 0
      ? []
      : [...taskLines(tasks.slice(0, most), progress.array === undefined ? 'task' : 'index'), ...more];
  return fitted([...head, ...table], columns, rows);
}

function barText({ counts, array }: Progress): readonly string[] {
  if (array === undefined) return [];
  const share = (counts.done + array.doneAlready) / Math.max(1, array.size);
  const bar = '#'.repeat(Math.floor(share * BAR_WIDTH)).padEnd(BAR_WIDTH);
  return [`[${bar}] ${Math.floor(share * 100)} %`];
}

function taskLines(tasks: readonly ShownTask[], title: string): readonly string[] {
  const nowMs = clockMs();
  const cells = tasks.map(({ task, startedMs, usedBytes, isEnding }) => [
    task.label,
    formatAge(nowMs - startedMs),
    usedBytes === 0 ? '' : formatBytes(usedBytes),
    isEnding ? 'ends' : '',
  ]);
  const columns: readonly Column[] = [{ title, align: 'right' }, ...COLUMNS];
  return tableLines(columns, cells, Infinity).map((line) => `  ${line}`);
}

function sizeOf({ rows, columns }: NodeJS.WriteStream): Partial<Size> {
  // A terminal that does not know its size reports zero.
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
