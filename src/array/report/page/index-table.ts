// The table of all shown indices, in pages, sorted by the column that the user chose.
import { compareIndices } from '../../../model/index-set.ts';
import { STATES, stateText } from '../../state.ts';
import { effortOf, type IndexEntry, lastOf, lastSignOf, type Report, textOf } from '../data.ts';
import { byId, button, type Cell, dot, el, table } from './dom.ts';
import { type Asks, linkTo } from './summary.ts';
import { bytesText, countText, durationText, timeText } from './words.ts';

const ROWS = 50;

interface Column {
  readonly title: string;
  readonly kind?: 'number' | 'words';
  /** Rows with lower keys come first; without a key, rows with lower indices. */
  readonly key?: (entry: IndexEntry) => number | string;
  readonly cell: (entry: IndexEntry) => string | Node;
}

export interface IndexTable {
  show(entries: readonly IndexEntry[]): void;
}

export function indexTable(report: Report, { open }: Asks): IndexTable {
  const columns = columnsOf(report, open);
  let entries: readonly IndexEntry[] = [];
  let sorted: readonly IndexEntry[] = [];
  let by: { readonly column: Column; readonly descending: boolean } | undefined;
  let page = 0;
  const [before, after] = [byId('previous-page', HTMLButtonElement), byId('next-page', HTMLButtonElement)];
  const turn = (to: number): void => {
    page = to;
    draw();
  };
  const sortBy = (column: Column): void => {
    by = { column, descending: by?.column === column ? !by.descending : column.kind === 'number' };
    [page, sorted] = [0, inOrder(entries, by)];
    draw();
    byId('table', HTMLElement).querySelector<HTMLElement>(`[data-column="${column.title}"]`)?.focus();
  };
  const headOf = (column: Column): Cell => ({
    content: button(column.title, () => sortBy(column), {
      'data-column': column.title,
      'aria-label': `order by ${column.title}`,
    }),
    class: column.kind === 'number' ? 'number' : undefined,
  });
  const draw = (): void => {
    const pages = Math.max(1, Math.ceil(sorted.length / ROWS));
    const rows = sorted
      .slice(page * ROWS, (page + 1) * ROWS)
      .map((entry) => columns.map(({ cell, kind }) => ({ content: cell(entry), class: kind })));
    const made = table(
      by === undefined ? 'What needs attention first' : `By ${by.column.title}`,
      columns.map(headOf),
      rows,
    );
    const heads = made.querySelectorAll('th');
    if (by !== undefined)
      heads[columns.indexOf(by.column)]?.setAttribute(
        'aria-sort',
        by.descending ? 'descending' : 'ascending',
      );
    byId('table', HTMLElement).replaceChildren(made);
    byId('page', HTMLElement).textContent = `page ${countText(page + 1)} of ${countText(pages)}`;
    [before.disabled, after.disabled] = [page === 0, page >= pages - 1];
  };
  before.addEventListener('click', () => turn(page - 1));
  after.addEventListener('click', () => turn(page + 1));
  return {
    show: (shown) => {
      entries = shown;
      [page, sorted] = [0, inOrder(entries, by)];
      draw();
    },
  };
}

function inOrder(
  entries: readonly IndexEntry[],
  by: { readonly column: Column; readonly descending: boolean } | undefined,
): readonly IndexEntry[] {
  if (by === undefined)
    return entries.toSorted(
      (a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state) || compareIndices(a.index, b.index),
    );
  const sign = by.descending ? -1 : 1;
  const { key } = by.column;
  if (key === undefined) return entries.toSorted((a, b) => sign * compareIndices(a.index, b.index));
  return entries.toSorted((a, b) => {
    const [left, right] = [key(a), key(b)];
    return sign * (left < right ? -1 : left > right ? 1 : 0) || compareIndices(a.index, b.index);
  });
}

function columnsOf(report: Report, open: Asks['open']): readonly Column[] {
  const host = (entry: IndexEntry): string => textOf(report, lastOf(entry)?.host ?? -1);
  const how = (entry: IndexEntry): string => textOf(report, lastOf(entry)?.how ?? -1);
  const signOf = (entry: IndexEntry): number | undefined => {
    const last = lastOf(entry);
    return last === undefined ? undefined : lastSignOf(last);
  };
  const counted = (
    title: string,
    of: (entry: IndexEntry) => number | undefined,
    text: (value: number) => string,
  ): Column => ({
    title,
    kind: 'number',
    key: (entry) => of(entry) ?? -1,
    cell: (entry) => {
      const value = of(entry);
      return value === undefined || entry.attempts.length === 0 ? '' : text(value);
    },
  });
  return [
    { title: 'index', cell: ({ index }) => linkTo(index, open) },
    {
      title: 'state',
      key: ({ state }) => STATES.indexOf(state),
      cell: (entry) => el('span', {}, dot(entry.state), stateText(entry)),
    },
    counted('attempts', (entry) => effortOf(entry).attempts, countText),
    counted('at work', (entry) => effortOf(entry).ran, durationText),
    counted('lost', (entry) => effortOf(entry).lost, durationText),
    counted('CPU', ({ cpu }) => cpu, durationText),
    counted('peak memory', ({ peakBytes }) => peakBytes, bytesText),
    counted('results', ({ results }) => results, countText),
    counted('size', ({ bytes }) => bytes, bytesText),
    {
      title: 'last sign',
      key: (entry) => signOf(entry) ?? 0,
      cell: (entry) => {
        const sign = signOf(entry);
        return sign === undefined ? '' : timeText(sign);
      },
    },
    { title: 'host', key: host, cell: host },
    { title: 'last attempt', kind: 'words', key: how, cell: how },
  ];
}
