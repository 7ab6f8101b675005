// The figures of all shown indices, and the problems: the slowest indices, and reasons of failures.
import { effortOf, type IndexEntry, lossesOf, type Report, savedOf } from '../data.ts';
import { stateText } from '../../state.ts';
import { byId, button, el, number, table, type Cell } from './dom.ts';
import { reasonsOf } from './reasons.ts';
import { bytesText, countText, durationText, shareText } from './words.ts';

const SLOWEST = 10;
const REASONS = 20;

export function showSummary(entries: readonly IndexEntry[]): void {
  const sum = (of: (entry: IndexEntry) => number | undefined): number =>
    entries.reduce((total, entry) => total + (of(entry) ?? 0), 0);
  const most = (of: (entry: IndexEntry) => number | undefined): number | undefined =>
    entries.reduce<number | undefined>((high, entry) => {
      const value = of(entry);
      return value === undefined ? high : Math.max(high ?? 0, value);
    }, undefined);
  const done = entries.filter(({ state }) => state === 'done').length;
  const [ran, saved, lost] = [
    sum((one) => effortOf(one).ran),
    sum(savedOf),
    sum((one) => effortOf(one).lost),
  ];
  const losses = [...lossesOf(entries)].filter(([, seconds]) => seconds > 0).toSorted((a, b) => b[1] - a[1]);
  const attempts = sum((one) => effortOf(one).attempts);
  const again = attempts - entries.filter((one) => one.attempts.length > 0).length;
  const [cpu, peak] = [sum((one) => one.cpu), most((one) => one.peakBytes)];
  const figures: readonly (readonly [string, string, string])[] = [
    ['done', `${countText(done)} of ${countText(entries.length)}`, shareText(done, entries.length)],
    ['attempts', countText(attempts), again > 0 ? `${countText(again)} after the first` : ''],
    ['time at work', durationText(ran), cpu > 0 ? `CPU ${durationText(cpu)}` : ''],
    ['saved by checkpoints', durationText(saved), saved > 0 ? `${shareText(saved, ran)} of the time` : ''],
    [
      'lost',
      durationText(lost),
      losses.map(([end, seconds]) => `${durationText(seconds)} ${end}`).join(', '),
    ],
    ['results', countText(sum((one) => one.results)), bytesText(sum((one) => one.bytes))],
    ['stored objects', bytesText(sum((one) => one.storedBytes)), 'results and checkpoints'],
    ['highest memory', peak === undefined ? 'not seen' : bytesText(peak), limitText(entries)],
  ];
  byId('summary', HTMLElement).replaceChildren(
    ...figures.map(([name, figure, more]) =>
      el(
        'div',
        {},
        el('dt', {}, name),
        el('dd', {}, figure, more === '' ? undefined : el('small', {}, more)),
      ),
    ),
  );
}

function limitText(entries: readonly IndexEntry[]): string {
  const limits = [...new Set(entries.flatMap(({ limitBytes }) => limitBytes ?? []))];
  return limits.length === 1 ? `of ${bytesText(limits[0])} of the job` : '';
}

/** Callbacks that open an index, or filter by a reason. */
export interface Asks {
  readonly open: (index: string) => void;
  readonly query: (text: string) => void;
}

export function showWhatWentWrong(report: Report, entries: readonly IndexEntry[], asks: Asks): void {
  byId('why', HTMLElement).replaceChildren(
    whyTable(report, entries, asks),
    el('p', {}),
    slowestOf(entries, asks),
  );
}

function whyTable(report: Report, entries: readonly IndexEntry[], { open, query }: Asks): HTMLElement {
  const reasons = reasonsOf(report, entries);
  if (reasons.length === 0) return el('p', { class: 'note' }, 'No index has failed, and none is stale.');
  const hasLines = reasons.some(({ line }) => line !== undefined);
  const rows = reasons
    .slice(0, REASONS)
    .map(({ how, line = '', entries: of, query: words }) => [
      number(countText(of.length)),
      { content: button(how, () => query(words), { title: 'show only these' }), class: 'words' },
      ...(hasLines ? [{ content: line === '' ? '' : el('code', {}, line), class: 'words' }] : []),
      { content: linksTo(of, open), class: 'words' },
    ]);
  const more = reasons.length > REASONS ? `, the ${REASONS} most frequent of ${reasons.length} reasons` : '';
  return table(
    `Why indices failed or are stale${more}`,
    [
      number('indices'),
      'how the last attempt ended',
      ...(hasLines ? ['last line of its output'] : []),
      'which',
    ],
    rows,
  );
}

const LINKS = 12;

function linksTo(entries: readonly IndexEntry[], open: Asks['open']): HTMLElement {
  const place = el('span', {});
  for (const { index } of entries.slice(0, LINKS)) place.append(linkTo(index, open), ' ');
  if (entries.length > LINKS) place.append(`and ${countText(entries.length - LINKS)} more`);
  return place;
}

/** A link that can be copied; a click keeps the filter. */
export function linkTo(index: string, open: Asks['open']): HTMLElement {
  const link = el('a', { href: `#index=${encodeURIComponent(index)}` }, index);
  link.addEventListener('click', (event) => {
    // The user wants a new tab or window.
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open(index);
  });
  return link;
}

function slowestOf(entries: readonly IndexEntry[], { open }: Asks): HTMLElement {
  const slowest = entries
    .filter(({ attempts }) => attempts.length > 0)
    .map((entry) => ({ entry, effort: effortOf(entry) }))
    .toSorted((a, b) => b.effort.ran - a.effort.ran)
    .slice(0, SLOWEST);
  const rows = slowest.map(({ entry, effort }): readonly (Cell | string)[] => [
    { content: linkTo(entry.index, open) },
    stateText(entry),
    number(durationText(effort.ran)),
    number(durationText(effort.lost)),
    number(countText(effort.attempts)),
    number(entry.cpu === undefined ? '' : durationText(entry.cpu)),
    number(bytesText(entry.peakBytes)),
  ]);
  const heads = ['index', 'state', ...['at work', 'lost', 'attempts', 'CPU', 'peak memory'].map(number)];
  return table(`The ${slowest.length} that took longest`, heads, rows);
}
