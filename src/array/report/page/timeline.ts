// The attempts of all shown indices over time: how many run, and how many end, by kind of end.
import type { End, IndexEntry } from '../data.ts';
import { chart, type Chart, type Series } from './chart.ts';
import { el } from './dom.ts';
import { stretchesOf } from './in-time.ts';
import { lanes } from './lanes.ts';
import type { Asks } from './summary.ts';
import { countText, durationText, numberText } from './words.ts';

/** Ends at the same time are stacked, the first kind at the bottom. */
const DRAWN: readonly { readonly end: End; readonly title: string; readonly colour: string }[] = [
  { end: 'failed', title: 'failed', colour: 'failed' },
  { end: 'killed', title: 'killed', colour: 'stale' },
  { end: 'preempted', title: 'preempted', colour: 'preempted' },
  { end: 'ended', title: 'ended', colour: 'ended' },
  { end: 'done', title: 'done', colour: 'done' },
];

export interface Timeline {
  show(entries: readonly IndexEntry[]): void;
  draw(): void;
}

/** `now`: when the report was made, s since the epoch. */
export function timeline(place: HTMLElement, now: number, asks: Asks): Timeline {
  let charts: readonly Chart[] = [];
  return {
    show: (entries) => {
      for (const one of charts) one.close();
      charts = chartsOf(entries, now);
      place.replaceChildren(
        ...(charts.length === 0 ? [el('p', { class: 'note' }, 'No attempt has begun.')] : []),
        lanes(entries, now, asks) ?? '',
        ...charts.map(({ element }) => element),
      );
      for (const one of charts) one.draw();
    },
    draw: () => {
      for (const one of charts) one.draw();
    },
  };
}

function chartsOf(entries: readonly IndexEntry[], now: number): readonly Chart[] {
  const found = stretchesOf(entries, now);
  if (found === undefined) return [];
  const { from: times, step, atWork, ends } = found;
  const below = times.map(() => 0);
  const stacked: Series[] = [];
  for (const { end, title, colour } of DRAWN) {
    const told = ends[end];
    if (told.every((count) => count === 0)) continue;
    told.forEach((count, at) => {
      below[at] = (below[at] ?? 0) + count;
    });
    stacked.unshift({ title, colour, values: [...below], told });
  }
  const until = (times.at(-1) ?? 0) + step;
  const common = { times, until, sync: 'timeline', ticks: 'counts', height: 170 } as const;
  const running = chart({
    ...common,
    title: 'Attempts at work',
    series: [{ title: 'at work', colour: 'running', values: atWork }],
    text: numberText,
    shape: 'steps',
  });
  if (stacked.length === 0) return [running];
  const ended = chart({
    ...common,
    title: `Attempts that ended, in ${durationText(step).replace('.0 s', ' s')}`,
    series: stacked,
    text: countText,
    shape: 'bars',
  });
  return [running, ended];
}
