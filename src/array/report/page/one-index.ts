// One index in a dialog: its figures, its attempts, and its resource use over time.
import { type State, stateText } from '../../state.ts';
import {
  type AttemptRow,
  effortOf,
  type IndexEntry,
  lastSignOf,
  type Line,
  lostOf,
  type Report,
  savedOf,
  textOf,
} from '../data.ts';
import { chart, type Chart } from './chart.ts';
import { byId, type Cell, dot, el, number, table } from './dom.ts';
import { bytesText, countText, durationText, numberText, timeText } from './words.ts';

const DRAWN: readonly {
  readonly line: Line;
  readonly title: string;
  readonly text: (value: number) => string;
  readonly binary?: boolean;
}[] = [
  { line: 'taskMemory', title: 'Memory of the task', text: bytesText, binary: true },
  { line: 'taskCpu', title: 'CPU of the task', text: (cores) => `${numberText(cores)} cores` },
  { line: 'space', title: 'Space in use where it works', text: bytesText, binary: true },
  {
    line: 'taskWritten',
    title: 'Written by the task',
    text: (bytes) => `${bytesText(bytes)}/s`,
    binary: true,
  },
];

export interface OneIndex {
  /** Undefined closes it. */
  show(entry: IndexEntry | undefined): void;
  draw(): void;
}

export interface Moves {
  readonly close: () => void;
  /** Moves to the previous or next shown index. */
  readonly step: (by: 1 | -1) => void;
}

export function oneIndex(report: Report, moves: Moves): OneIndex {
  const dialog = byId('one', HTMLDialogElement);
  const [title, body] = [byId('one-title', HTMLElement), byId('one-body', HTMLElement)];
  let charts: readonly Chart[] = [];
  const clear = (): void => {
    for (const one of charts) one.close();
    charts = [];
  };
  byId('one-close', HTMLButtonElement).addEventListener('click', () => dialog.close());
  byId('one-before', HTMLButtonElement).addEventListener('click', () => moves.step(-1));
  byId('one-after', HTMLButtonElement).addEventListener('click', () => moves.step(1));
  // Also for Escape.
  dialog.addEventListener('close', () => {
    clear();
    moves.close();
  });
  return {
    show: (entry) => {
      clear();
      if (entry === undefined) return dialog.close();
      title.replaceChildren(dot(entry.state satisfies State), `Index ${entry.index}: ${stateText(entry)}`);
      charts = chartsOf(entry);
      body.replaceChildren(
        factsOf(entry),
        ...leftOf(entry),
        ...saidOf(entry),
        el('div', { class: 'scroll' }, attemptsOf(report, entry)),
        charts.length === 0
          ? el('p', { class: 'note' }, 'What it used is not recorded, or this page had no room for it.')
          : el('div', { class: 'charts' }, ...charts.map(({ element }) => element)),
      );
      if (!dialog.open) {
        dialog.showModal();
        title.focus();
      }
      for (const one of charts) one.draw();
    },
    draw: () => {
      for (const one of charts) one.draw();
    },
  };
}

function factsOf(entry: IndexEntry): HTMLElement {
  const { attempts, ran, lost } = effortOf(entry);
  const facts: readonly (readonly [string, string])[] = [
    ['attempts', countText(attempts)],
    ['at work', durationText(ran)],
    ['saved by checkpoints', durationText(savedOf(entry))],
    ['lost', durationText(lost)],
    ['CPU', entry.cpu === undefined ? '' : durationText(entry.cpu)],
    ['peak memory', bytesText(entry.peakBytes)],
    ['limit of the job', bytesText(entry.limitBytes)],
    ['results', entry.results === undefined ? '' : `${countText(entry.results)} (${bytesText(entry.bytes)})`],
    ['stored objects', bytesText(entry.storedBytes)],
    ['newest checkpoint', entry.checkpoint === undefined ? '' : timeText(entry.checkpoint)],
  ];
  const known = facts.filter(([, text]) => text !== '');
  return el(
    'dl',
    { class: 'facts' },
    ...known.map(([name, text]) => el('div', {}, el('dt', {}, name), el('dd', {}, text))),
  );
}

function leftOf({ left = [] }: IndexEntry): readonly HTMLElement[] {
  if (left.length === 0) return [];
  return [el('p', {}, 'Not stored:'), el('ul', {}, ...left.map((text) => el('li', {}, text)))];
}

function saidOf({ said = [] }: IndexEntry): readonly HTMLElement[] {
  return said.flatMap(({ stream, lines }) => [
    el('p', {}, `Last lines of ${stream}:`),
    el('pre', {}, lines.join('\n')),
  ]);
}

function attemptsOf(report: Report, { attempts, earlier }: IndexEntry): HTMLElement {
  const longest = attempts.reduce((most, { ran }) => Math.max(most, ran), 1);
  const rows = attempts.map((one): readonly (Cell | string)[] => [
    number(String(one.attempt)),
    timeText(one.from),
    number(durationText(one.ran)),
    { content: shareOf(one, longest) },
    number(durationText(lostOf(one))),
    timeText(lastSignOf(one)),
    textOf(report, one.host),
    one.restored ?? '',
    { content: textOf(report, one.how), class: 'words' },
  ]);
  const more = earlier === undefined ? '' : `, without ${countText(earlier.attempts)} before them`;
  const heads = [
    number('attempt'),
    'started',
    number('at work'),
    'kept and lost',
    number('lost'),
    'last sign',
  ];
  return table(`Attempts${more}`, [...heads, 'host', 'from checkpoint', 'how it ended'], rows);
}

/** How long the attempt ran compared to the longest one, and which part of it was kept. */
function shareOf({ ran, kept, end }: AttemptRow, longest: number): HTMLElement {
  const part = (kind: string, colour: string, seconds: number): HTMLElement => {
    const made = el('i', { class: kind });
    made.style.setProperty('--colour', `var(--${colour})`);
    made.style.width = `${(100 * seconds) / longest}%`;
    return made;
  };
  const isRunning = end === 'running';
  const rest = `${durationText(ran - kept)} ${isRunning ? 'since the newest checkpoint' : 'lost'}`;
  const label = `kept ${durationText(kept)}, ${rest}`;
  return el(
    'span',
    { class: 'share', role: 'img', 'aria-label': label, title: label },
    part('solid', 'kept', kept),
    part('hatched', isRunning ? 'running' : 'lost', ran - kept),
  );
}

/** All attempts in one chart, with gaps between them. */
function chartsOf({ attempts, index }: IndexEntry): readonly Chart[] {
  const seen = attempts.flatMap(({ used }) => used ?? []);
  return DRAWN.flatMap(({ line, title, text, binary }) => {
    const times: number[] = [];
    const values: (number | null)[] = [];
    for (const { from, step, lines } of seen) {
      const { [line]: found } = lines;
      if (found === undefined) continue;
      found.values.forEach((value, at) => {
        // Times must ascend, but the clocks of two machines may differ.
        const time = Math.max(from + at * step, (times.at(-1) ?? -Infinity) + 1);
        times.push(time);
        values.push(value === null ? null : value * found.unit);
      });
      times.push((times.at(-1) ?? from) + step);
      values.push(null);
    }
    if (values.every((value) => value === null)) return [];
    const series = [{ title, colour: 'running', values }];
    return [chart({ title, times, step: seen[0]?.step ?? 1, series, text, binary, sync: `index ${index}` })];
  });
}
