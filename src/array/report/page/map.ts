// The heat map: a cell for each shown index, on a canvas, because there may be very many. It supports pointer and
// keyboard, and text next to it describes the cell under the cursor.
import { effortOf, type IndexEntry } from '../data.ts';
import { stateText } from '../../state.ts';
import { byId } from './dom.ts';
import { cellAt, cornerOf, gapOf, paint, type Shape, shapeOf, showLegend } from './map-paint.ts';
import type { Colour } from './view.ts';
import { bytesText, countText, durationText } from './words.ts';

export interface HeatMap {
  show(entries: readonly IndexEntry[], colour: Colour): void;
  draw(): void;
}

/** `open` is called with the index of a cell. */
export function heatMap(open: (index: string) => void): HeatMap {
  const canvas = byId('map', HTMLCanvasElement);
  const cursor = byId('cursor', HTMLElement);
  const here = byId('here', HTMLElement);
  let entries: readonly IndexEntry[] = [];
  let colour: Colour = 'state';
  let shape: Shape = shapeOf(0, canvas.clientWidth);
  let at = 0;

  const draw = (): void => {
    shape = shapeOf(entries.length, canvas.clientWidth);
    paint(canvas, { entries, colour, shape });
    point();
  };
  /** Shows where the cursor is. */
  const point = (): void => {
    at = Math.max(0, Math.min(entries.length - 1, at));
    cursor.hidden = entries.length === 0 || !canvas.matches(':focus, :hover');
    const [x, y] = cornerOf(shape, at);
    cursor.style.translate = `${x - 2}px ${y - 2}px`;
    cursor.style.width = cursor.style.height = `${shape.size - gapOf(shape.size) + 4}px`;
  };
  const moveTo = (next: number | undefined): boolean => {
    const entry = next === undefined ? undefined : entries[next];
    if (next === undefined || entry === undefined) return false;
    at = next;
    here.textContent = describe(entry);
    point();
    return true;
  };
  const openHere = (): void => {
    const entry = entries[at];
    if (entry !== undefined) open(entry.index);
  };
  const under = ({ offsetX, offsetY }: MouseEvent): number | undefined => cellAt(shape, offsetX, offsetY);

  canvas.addEventListener('pointermove', (event) => moveTo(under(event)));
  canvas.addEventListener('pointerleave', point);
  canvas.addEventListener('click', (event) => {
    if (moveTo(under(event))) openHere();
  });
  canvas.addEventListener('focus', () => moveTo(at));
  canvas.addEventListener('blur', point);
  canvas.addEventListener('keydown', (event) => {
    const next = movedBy(event, { at, columns: shape.columns, last: entries.length - 1 });
    if (next !== undefined) moveTo(next);
    else if (event.key === 'Enter' || event.key === ' ') openHere();
    else return;
    event.preventDefault();
  });
  new ResizeObserver(draw).observe(canvas.parentElement ?? canvas);
  return {
    show: (shown, by) => {
      [entries, colour] = [shown, by];
      here.textContent = '\u00a0';
      draw();
      showLegend(entries, colour);
    },
    draw,
  };
}

/** Undefined if the key does not move the cursor. */
function movedBy(
  { key, ctrlKey }: KeyboardEvent,
  { at, columns, last }: { readonly at: number; readonly columns: number; readonly last: number },
): number | undefined {
  const steps: Readonly<Record<string, number>> = {
    ArrowLeft: -1,
    ArrowRight: 1,
    ArrowUp: -columns,
    ArrowDown: columns,
    PageUp: -10 * columns,
    PageDown: 10 * columns,
  };
  if (key === 'Home') return ctrlKey ? 0 : at - (at % columns);
  if (key === 'End') return ctrlKey ? last : Math.min(last, at - (at % columns) + columns - 1);
  const step = steps[key];
  if (step === undefined) return undefined;
  return at + step < 0 || at + step > last ? at : at + step;
}

function describe(entry: IndexEntry): string {
  const { attempts, ran, lost } = effortOf(entry);
  const parts = [`index ${entry.index}: ${stateText(entry)}`];
  if (attempts > 0) parts.push(attempts === 1 ? '1 attempt' : `${countText(attempts)} attempts`);
  if (ran > 0) parts.push(`ran ${durationText(ran)}`);
  if (lost > 0) parts.push(`lost ${durationText(lost)}`);
  if (entry.peakBytes !== undefined) parts.push(`peak memory ${bytesText(entry.peakBytes)}`);
  return parts.join(', ');
}
