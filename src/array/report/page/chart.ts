// A chart of time series by uPlot, with a table of the same numbers. It has the width of its container, and the page's
// colours, light or dark.
import uPlot from 'uplot';
import { colourOf, el, number, table } from './dom.ts';
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
  readonly step: number;
  /** Drawn in this order: the first ones are in the background. */
  readonly series: readonly Series[];
  readonly text: (value: number) => string;
  /** Bars have no line between two values. */
  readonly bars?: boolean;
  readonly height?: number;
  /** Charts with the same name share their cursor. */
  readonly sync?: string;
  /** Memory sizes are shown in powers of two. */
  readonly binary?: boolean;
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

const BINARY = Array.from({ length: 60 }, (_, at) => 2 ** at);

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

function dataOf({ times, series }: ChartOf): uPlot.AlignedData {
  return [[...times], ...series.map(({ values }) => [...values])];
}

function optionsOf(of: ChartOf, width: number): uPlot.Options {
  const { times, series, text, height = 190, sync, bars, binary } = of;
  const axis = {
    stroke: colourOf('soft'),
    grid: { stroke: colourOf('line'), width: 1 },
    ticks: { stroke: colourOf('line'), width: 1 },
    font: '12px system-ui, sans-serif',
  };
  const paths = bars === true ? uPlot.paths.bars?.({ size: [0.9, 60] }) : uPlot.paths.linear?.();
  return {
    width,
    height,
    // UTC, as in all tables, so that a day is the same everywhere.
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
    cursor: { drag: { x: true, y: false }, ...(sync === undefined ? {} : { sync: { key: sync } }) },
    scales: { y: { range: (_plot, _least, most) => [0, most > 0 ? most * 1.05 : 1] } },
    axes: [
      { ...axis, space: 64, values: TIMES },
      {
        ...axis,
        size: 86,
        values: (_plot, splits) => splits.map((value) => (Math.abs(value) < 1e-9 ? '0' : text(value))),
        ...(binary === true ? { incrs: BINARY } : {}),
      },
    ],
    series: [
      {
        label: 'time (UTC)',
        value: (_plot, seconds) => (seconds === null ? rangeText(times) : timeText(seconds)),
      },
      ...series.map(({ title, colour, told, values }) => ({
        label: title,
        stroke: colourOf(colour),
        fill: bars === true ? colourOf(colour) : `${colourOf(colour)}30`,
        width: bars === true ? 0 : 1.5,
        paths,
        points: { show: bars !== true && values.length < 3 },
        value: (_plot: uPlot, _value: number | null, _series: number, at: number | null) => {
          // Without a cursor, the legend says the same as the text alternative.
          if (at === null) return mostText(told ?? values, text);
          const shown = (told ?? values)[at];
          return shown === null || shown === undefined ? '' : text(shown);
        },
      })),
    ],
  };
}

/** The text alternative for the chart. */
function summaryOf({ title, times, series, text }: ChartOf): string {
  const most = series.map(({ title: name, values, told }) => `${name} ${mostText(told ?? values, text)}`);
  return `${title}, from ${rangeText(times)}: ${most.join(', ')}`;
}

function rangeText(times: readonly number[]): string {
  const [first, last] = [times[0], times.at(-1)];
  return first === undefined || last === undefined ? '' : `${timeText(first)} to ${timeText(last)}`;
}

function mostText(values: readonly (number | null)[], text: ChartOf['text']): string {
  return `highest sample ${text(values.reduce<number>((high, value) => Math.max(high, value ?? 0), 0))}`;
}

function tableOf({ title, times, series, text }: ChartOf): HTMLTableElement {
  const heads = ['from (UTC)', ...series.map(({ title: name }) => number(name))];
  const rows = times.map((time, at) => [
    timeText(time),
    ...series.map(({ values, told }) => {
      const value = (told ?? values)[at];
      return number(value === null || value === undefined ? '' : text(value));
    }),
  ]);
  return table(title, heads, rows);
}
