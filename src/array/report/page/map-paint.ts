// How the heat map looks: the size and colour of its cells. Draws on a given canvas.
import { STATES } from '../../state.ts';
import { effortOf, type IndexEntry } from '../data.ts';
import { byId, colourOf, dot, el } from './dom.ts';
import { blended, moreReadable } from './contrast.ts';
import type { Colour } from './view.ts';
import type { State } from '../../../model/format/json-output.ts';
import { bytesText, countText, durationText } from './words.ts';

/** The maximum height, unless cells would become too small to click. */
const HEIGHT = 460;
const LARGEST = 34;
const SMALLEST = 5;
const LABELS = 52;
/** Steps of the colour scale for numbers. */
const SHADES = 5;

export interface Shape {
  readonly columns: number;
  /** The size of a cell with its gap. */
  readonly size: number;
  /**
   * Where the cells start from the left. Each row's first index is in that margin. 0: each cell shows its own index.
   */
  readonly left: number;
}

export function shapeOf(count: number, width: number): Shape {
  // A map that fits without row labels has none.
  const room = (size: number): number => Math.floor(width / size);
  if (count <= room(LARGEST)) return { columns: Math.max(1, room(LARGEST)), size: LARGEST, left: 0 };
  const inside = Math.max(SMALLEST * 10, width - LABELS);
  const size = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(Math.sqrt((inside * HEIGHT) / count))));
  const fit = Math.max(1, Math.floor(inside / size));
  // Rows start with round numbers.
  const round = fit % 50 <= fit / 8 ? 50 : fit >= 10 ? 10 : 1;
  return { columns: fit - (fit % round), size, left: LABELS };
}

/** The top left corner of a cell. */
export function cornerOf({ columns, size, left }: Shape, at: number): readonly [x: number, y: number] {
  return [left + (at % columns) * size, Math.floor(at / columns) * size];
}

/** The number of the cell at this point; undefined if there is none. */
export function cellAt({ columns, size, left }: Shape, x: number, y: number): number | undefined {
  const column = Math.floor((x - left) / size);
  return column < 0 || column >= columns ? undefined : Math.floor(y / size) * columns + column;
}

export function gapOf(size: number): number {
  return size >= 14 ? 2 : 1;
}

export interface Painted {
  readonly entries: readonly IndexEntry[];
  readonly colour: Colour;
  readonly shape: Shape;
}

export function paint(canvas: HTMLCanvasElement, painted: Painted): void {
  const { entries, colour, shape } = painted;
  const { columns, size } = shape;
  const rows = Math.max(1, Math.ceil(entries.length / columns));
  const height = rows * size;
  const scale = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(canvas.clientWidth * scale);
  canvas.height = Math.round(height * scale);
  const brush = canvas.getContext('2d');
  if (brush === null) return;
  brush.scale(scale, scale);
  const side = size - gapOf(size);
  const { paintOf } = scaleOf(entries, colour);
  const paper = colourOf('paper');
  entries.forEach((entry, at) => {
    const [left, top] = cornerOf(shape, at);
    const { fill, alpha } = paintOf(entry);
    brush.fillStyle = paper;
    brush.globalAlpha = 1;
    brush.fillRect(left, top, side, side);
    brush.fillStyle = fill;
    brush.globalAlpha = alpha;
    brush.fillRect(left, top, side, side);
  });
  brush.globalAlpha = 1;
  if (shape.left === 0) nameCells(brush, painted);
  else nameRows(brush, painted);
}

/** Writes the index into each cell that has room for it. */
function nameCells(brush: CanvasRenderingContext2D, { entries, colour, shape: { size } }: Painted): void {
  const { paintOf } = scaleOf(entries, colour);
  const [paper, ink] = [colourOf('paper'), colourOf('ink')];
  brush.font = '12px system-ui, sans-serif';
  brush.textAlign = 'center';
  brush.textBaseline = 'middle';
  entries.forEach((entry, at) => {
    const { index } = entry;
    const { fill, alpha } = paintOf(entry);
    brush.fillStyle = moreReadable([ink, paper], blended(fill, paper, alpha));
    const middle = (size - gapOf(size)) / 2;
    if (index.length <= 4) brush.fillText(index, at * size + middle, middle + 1);
  });
}

function nameRows(brush: CanvasRenderingContext2D, { entries, shape: { columns, size } }: Painted): void {
  brush.fillStyle = colourOf('soft');
  brush.font = '12px system-ui, sans-serif';
  brush.textAlign = 'right';
  brush.textBaseline = 'top';
  const every = Math.max(1, Math.ceil(18 / size));
  const bottom = Math.ceil(entries.length / columns) * size;
  for (let at = 0; at < entries.length; at += columns * every) {
    if (at > 0 && (at / columns) * size + 12 > bottom) break;
    const text = entries[at]?.index ?? '';
    brush.fillText(text.length > 7 ? `${text.slice(0, 6)}…` : text, LABELS - 6, (at / columns) * size);
  }
}

interface Scale {
  readonly paintOf: (entry: IndexEntry) => { readonly fill: string; readonly alpha: number };
  /** For the legend; empty for states. */
  readonly steps: readonly string[];
}

const COUNTED: Readonly<
  Record<
    Exclude<Colour, 'state'>,
    { readonly of: (entry: IndexEntry) => number | undefined; readonly text: (value: number) => string }
  >
> = {
  time: { of: (entry) => effortOf(entry).ran, text: durationText },
  lost: { of: (entry) => effortOf(entry).lost, text: durationText },
  memory: { of: ({ peakBytes }) => peakBytes, text: bytesText },
  attempts: { of: (entry) => effortOf(entry).attempts, text: countText },
};

function scaleOf(entries: readonly IndexEntry[], colour: Colour): Scale {
  if (colour === 'state') {
    const colours = new Map<State, string>();
    const fillOf = (state: State): string => {
      const known = colours.get(state) ?? colourOf(state);
      colours.set(state, known);
      return known;
    };
    return { paintOf: ({ state }) => ({ fill: fillOf(state), alpha: 1 }), steps: [] };
  }
  const { of, text } = COUNTED[colour];
  const most = entries.reduce((high, entry) => Math.max(high, of(entry) ?? 0), 0);
  const [fill, none] = [colourOf('accent'), colourOf('missing')];
  const stepOf = (value: number): number =>
    most === 0 ? 0 : Math.min(SHADES - 1, Math.floor((value / most) * SHADES));
  return {
    paintOf: (entry) => {
      const value = of(entry);
      if (value === undefined || entry.attempts.length === 0) return { fill: none, alpha: 0.35 };
      return { fill, alpha: shade(stepOf(value)) };
    },
    steps: Array.from({ length: SHADES }, (_, step) => text((most * (step + 1)) / SHADES)),
  };
}

function shade(step: number): number {
  return 0.15 + (0.85 * step) / (SHADES - 1);
}

export function showLegend(entries: readonly IndexEntry[], colour: Colour): void {
  const place = byId('legend', HTMLElement);
  if (colour === 'state') {
    const found = new Set(entries.map(({ state }) => state));
    const there = STATES.filter((state) => found.has(state));
    place.replaceChildren(...there.map((state) => el('span', {}, dot(state), state)));
    return;
  }
  const { steps } = scaleOf(entries, colour);
  place.replaceChildren(
    ...steps.map((text, step) => {
      const square = dot('accent');
      square.style.opacity = String(shade(step));
      return el('span', {}, square, `to ${text}`);
    }),
  );
}
