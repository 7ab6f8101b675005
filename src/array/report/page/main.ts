// Read this first. The page of `capture report`: unpacks the data in the page, and shows the view in the hash of the
// URL. Each part of the page is a file that gets the entries to show. It sends no requests.
import { STATES } from '../../state.ts';
import type { IndexEntry, Report, ReportHead } from '../data.ts';
import { byId, button, dot, el } from './dom.ts';
import { indexTable } from './index-table.ts';
import { heatMap } from './map.ts';
import { oneIndex } from './one-index.ts';
import { showSummary, showWhatWentWrong } from './summary.ts';
import { timeline } from './timeline.ts';
import { COLOURS, type Colour, hashOf, shownOf, type View, viewOf } from './view.ts';
import { countText, timeText } from './words.ts';

const COLOUR_WORDS: Readonly<Record<Colour, string>> = {
  state: 'state',
  time: 'time at work',
  lost: 'time lost',
  memory: 'peak memory',
  attempts: 'attempts',
};

const report: Report = {
  head: JSON.parse(data('head')) as ReportHead,
  entries: (await unpacked(data('entries'))) as readonly IndexEntry[],
};
let view: View = viewOf(location.hash);
let shown: readonly IndexEntry[] = [];

const asks = {
  open: (index: string) => go({ ...view, index }),
  query: (query: string) => go({ ...view, query }),
};
const map = heatMap(asks.open);
const inTime = timeline(byId('timeline', HTMLElement), report.head.now, asks);
const all = indexTable(report, asks);
const one = oneIndex(report, {
  close: () => go({ ...view, index: undefined }),
  step: (by) => {
    const next = shown[shown.findIndex(({ index }) => index === view.index) + by];
    if (next !== undefined) go({ ...view, index: next.index });
  },
});

begin();

function data(id: string): string {
  return byId(id, HTMLScriptElement).textContent;
}

/** Reverses `writePacked` in report.ts with the browser's own functions, because nothing may be fetched. */
async function unpacked(text: string): Promise<unknown> {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const whole = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(whole).json();
}

function begin(): void {
  const { task, store, now, capture } = report.head;
  byId('title', HTMLElement).textContent =
    `${task}: ${countText(report.entries.length)} ${report.entries.length === 1 ? 'index' : 'indices'}`;
  byId('about', HTMLElement).textContent =
    `${store}, as of ${timeText(now)}, by capture ${capture}. All times are UTC.`;
  const query = byId('query', HTMLInputElement);
  query.addEventListener('input', () => go({ ...view, query: query.value }));
  byId('filter', HTMLFormElement).addEventListener('submit', (event) => event.preventDefault());
  const colour = byId('colour', HTMLSelectElement);
  colour.append(...COLOURS.map((name) => el('option', { value: name }, COLOUR_WORDS[name])));
  colour.addEventListener('change', () =>
    go({ ...view, colour: COLOURS.find((name) => name === colour.value) ?? 'state' }),
  );
  showStates();
  window.addEventListener('hashchange', () => show(viewOf(location.hash)));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    map.draw();
    inTime.draw();
    one.draw();
  });
  show(view, true);
}

/** A button with a count for each state that occurs. */
function showStates(): void {
  const counts = new Map<string, number>();
  for (const { state } of report.entries) counts.set(state, (counts.get(state) ?? 0) + 1);
  for (const state of STATES) {
    const count = counts.get(state);
    if (count === undefined) continue;
    const made = button(` ${countText(count)} ${state}`, () => {
      const others = view.states.filter((name) => name !== state);
      go({ ...view, states: others.length < view.states.length ? others : [...others, state] });
    });
    made.dataset['state'] = state;
    made.prepend(dot(state));
    byId('states', HTMLElement).append(made);
  }
}

/** Shows the view, and puts it into the URL. */
function go(next: View): void {
  const isOther = next.index !== view.index;
  const url = `${location.pathname}${location.search}${hashOf(next)}`;
  // Each opened index is a history entry; each typed letter of a query is not.
  if (hashOf(next) !== hashOf(view)) history[isOther ? 'pushState' : 'replaceState'](null, '', url);
  show(next);
}

function show(next: View, isFirst = false): void {
  const isFiltered = next.query !== view.query || next.states.join() !== view.states.join();
  const isColoured = next.colour !== view.colour;
  const isOpened = next.index !== view.index;
  view = next;
  if (isFirst || isFiltered) {
    shown = shownOf(report, view);
    const query = byId('query', HTMLInputElement);
    if (query.value !== view.query) query.value = view.query;
    byId('shown', HTMLElement).textContent =
      shown.length === report.entries.length
        ? ''
        : `${countText(shown.length)} of ${countText(report.entries.length)} shown`;
    for (const made of byId('states', HTMLElement).querySelectorAll('button'))
      made.setAttribute('aria-pressed', String(view.states.some((state) => state === made.dataset['state'])));
    showSummary(shown);
    inTime.show(shown);
    showWhatWentWrong(report, shown, asks);
    all.show(shown);
  }
  if (isFirst || isFiltered || isColoured) {
    byId('colour', HTMLSelectElement).value = view.colour;
    map.show(shown, view.colour);
  }
  if (isFirst ? view.index !== undefined : isOpened)
    one.show(report.entries.find(({ index }) => index === view.index));
}
