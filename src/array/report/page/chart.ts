// A chart of time series by uPlot, with a table of the same numbers. It has the width of its container, and the page's
// colours, light or dark.
import uPlot from 'uplot';
import { type Cell, colourOf, el, number, table } from './dom.ts';
import { timeText } from './words.ts';

export interface Series {
  readonly title: string;
  /** A variable of style.css. */
  readonly colour: string;
  readonly values: readonly (number | null)[];
  /** The values to show, if the drawn ones are stacked on another series. */
  readonly told?: readonly (number | null)[];
}

export interface ChartOf {
  readonly title: string;
  /** Seconds since the epoch, ascending. */
  readonly times: readonly number[];
  /** Where the time axis ends; undefined: at the last of the times. */
  readonly until?: number;
  /** Drawn in this order: the first ones are in the background. */
  readonly series: readonly Series[];
  readonly text: (value: number) => string;
  /** Bars and steps begin with their interval; lines lead from value to value. */
  readonly shape: 'bars' | 'steps' | 'lines';
  readonly height?: number;
  /** Charts with the same name share their cursor. */
  readonly sync?: string;
  /** Ticks of sizes are powers of two, those of counts whole numbers. */
  readonly ticks?: keyof typeof TICKS;
}

export interface Chart {
  readonly element: HTMLElement;
  /** Call it once the element is in the page. */
  draw(): void;
  close(): void;
}

/** The time format for each tick distance (s), and what to add where a day starts (uPlot, Axis.values). */
const TIMES: uPlot.Axis.Values = [
  [86_400, '{YYYY}-{MM}-{DD}', null, null, null, null, null, null, 1],
  [60, '{HH}:{mm}', '\n{YYYY}-{MM}-{DD}', null, '\n{YYYY}-{MM}-{DD}', null, null, null, 1],
  [1, '{HH}:{mm}:{ss}', '\n{YYYY}-{MM}-{DD}', null, '\n{YYYY}-{MM}-{DD}', null, null, null, 1],
];

/** Distances between two ticks of the y axis. */
const TICKS = {
  sizes: Array.from({ length: 60 }, (_, at) => 2 ** at),
  counts: Array.from({ length: 15 }, (_, at) => [1, 2, 5].map((digit) => digit * 10 ** at)).flat(),
};

export function chart(of: ChartOf): Chart {
  const place = el('div', { role: 'img', 'aria-label': summaryOf(of) });
  const behind = el('details', { class: 'note' }, el('summary', {}, 'As a table'));
  // Created when it is opened, because most never are.
  behind.addEventListener('toggle', () => {
    if (behind.childElementCount === 1) behind.append(el('div', { class: 'scroll' }, tableOf(of)));
  });
  const element = el('div', { class: 'chart' }, el('h3', {}, of.title), place, behind);
  let plot: uPlot | undefined;
  const watching = new ResizeObserver(() => {
    const width = place.clientWidth;
    if (plot !== undefined && width > 0 && width !== plot.width) plot.setSize({ width, height: plot.height });
  });
  return {
    element,
    draw: () => {
      plot?.destroy();
      plot = new uPlot(optionsOf(of, place.clientWidth || 300), dataOf(of), place);
      watching.observe(place);
    },
    close: () => {
      watching.disconnect();
      plot?.destroy();
      plot = undefined;
    },
  };
}

function dataOf({ times, until, series }: ChartOf): uPlot.AlignedData {
  const lines = series.map(({ values }) => [...values]);
  // Without a value there: only the axis goes on to it.
  return until === undefined
    ? [[...times], ...lines]
    : [[...times, until], ...lines.map((values) => [...values, null])];
}

function optionsOf(of: ChartOf, width: number): uPlot.Options {
  const { times, series, text, height = 190, sync, ticks } = of;
  const axis = {
    stroke: colourOf('soft'),
    grid: { stroke: colourOf('line'), width: 1 },
    ticks: { stroke: colourOf('line'), width: 1 },
    font: '12px system-ui, sans-serif',
  };
  return {
    width,
    height,
    // Room for half of a label at the end of the time axis.
    padding: [null, 30, null, null],
    // UTC, as in all tables, so that a day is the same everywhere.
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
    cursor: {
      drag: { x: true, y: false },
      ...(sync === undefined ? {} : { sync: { key: sync } }),
      // The interval in which the cursor is.
      dataIdx: (_plot, _series, nearest, time) =>
        (times[nearest] ?? Infinity) > time ? Math.max(0, nearest - 1) : nearest,
    },
    scales: { y: { range: (_plot, _least, most) => [0, 1.05 * topOf(most, of)] } },
    axes: [
      { ...axis, space: 64, values: TIMES },
      {
        ...axis,
        size: 86,
        values: (_plot, splits) => splits.map((value) => (Math.abs(value) < 1e-9 ? '0' : text(value))),
        ...(ticks === undefined ? {} : { incrs: TICKS[ticks] }),
      },
    ],
    series: [
      {
        label: 'time (UTC)',
        value: (_plot, seconds) => (seconds === null ? rangeText(of) : timeText(seconds)),
      },
      ...series.map((one) => seriesOf(one, of)),
    ],
  };
}

/** A scale of counts has a tick above 0. */
function topOf(most: number, { ticks }: ChartOf): number {
  if (ticks === 'counts') return Math.max(1, most);
  return most > 0 ? most : 1;
}

function seriesOf({ title, colour, told, values }: Series, { text, shape }: ChartOf): uPlot.Series {
  const { bars, stepped, linear } = uPlot.paths;
  const paths = {
    bars: bars?.({ size: [0.9, 60], align: 1 }),
    steps: stepped?.({ align: 1, extend: true }),
    lines: linear?.(),
  };
  return {
    label: title,
    stroke: colourOf(colour),
    fill: shape === 'bars' ? colourOf(colour) : `${colourOf(colour)}30`,
    width: shape === 'bars' ? 0 : 1.5,
    paths: paths[shape],
    // A value between two gaps has no line.
    points: { show: false, ...(shape === 'lines' ? { filter: () => lonelyOf(values) } : {}) },
    value: (_plot, _value, _series, at) => {
      // Without a cursor, the legend says the same as the text alternative.
      if (at === null) return mostText(told ?? values, text);
      const shown = (told ?? values)[at];
      return shown === null || shown === undefined ? '' : text(shown);
    },
  };
}

/** The text alternative for the chart. */
function summaryOf(of: ChartOf): string {
  const { title, series, text } = of;
  const most = series.map(({ title: name, values, told }) => `${name} ${mostText(told ?? values, text)}`);
  return `${title}, from ${rangeText(of)}: ${most.join(', ')}`;
}

function rangeText({ times, until = times.at(-1) }: ChartOf): string {
  const [first] = times;
  return first === undefined || until === undefined ? '' : `${timeText(first)} to ${timeText(until)}`;
}

function lonelyOf(values: readonly (number | null)[]): number[] {
  const isThere = (at: number): boolean => (values[at] ?? null) !== null;
  return [...values.keys()].filter((at) => isThere(at) && !isThere(at - 1) && !isThere(at + 1));
}

function mostText(values: readonly (number | null)[], text: ChartOf['text']): string {
  return `highest sample ${text(values.reduce<number>((high, value) => Math.max(high, value ?? 0), 0))}`;
}

function tableOf({ title, times, series, text }: ChartOf): HTMLTableElement {
  const heads = ['from (UTC)', ...series.map(({ title: name }) => number(name))];
  const cell = (value: number | null = null): Cell => number(value === null ? '' : text(value));
  const rows = times.flatMap((time, at) => {
    const values = series.map((one) => (one.told ?? one.values)[at]);
    // A gap is no measurement.
    return values.every((value) => (value ?? null) === null)
      ? []
      : [[timeText(time), ...values.map((value) => cell(value))]];
  });
  return table(title, heads, rows);
}
