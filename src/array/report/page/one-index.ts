// One index in a dialog: its figures, its attempts, and its resource use over time.
import { stateText } from '../../state.ts';
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
import { usedInTime } from './used-in-time.ts';
import type { State } from '../../../model/format/json-output.ts';
import { bytesText, countText, durationText, numberText, timeText } from './words.ts';

const DRAWN: readonly {
  readonly line: Line;
  readonly title: string;
  readonly text: (value: number) => string;
  readonly ticks?: 'sizes';
}[] = [
  { line: 'taskMemory', title: 'Memory of the task', text: bytesText, ticks: 'sizes' },
  { line: 'taskCpu', title: 'CPU of the task', text: (cores) => `${numberText(cores)} cores` },
  { line: 'space', title: 'Space in use where it works', text: bytesText, ticks: 'sizes' },
  {
    line: 'taskWritten',
    title: 'Written by the task',
    text: (bytes) => `${bytesText(bytes)}/s`,
    ticks: 'sizes',
  },
];

const NO_CHARTS =
  'There are no charts: what it used was sampled less than twice (every 10 s), or this page had no room.';

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
        legendOf(entry),
        charts.length === 0
          ? el('p', { class: 'note' }, NO_CHARTS)
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
  const longest = attempts.reduce((most, { ran }) => Math.max(most, ran), 0) || 1;
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

function legendOf({ attempts }: IndexEntry): HTMLElement {
  const isAny = (colour: string): boolean =>
    attempts.some((one) => one.ran > one.kept && restOf(one).colour === colour);
  return el(
    'p',
    { class: 'note legend' },
    attempts.some(({ kept }) => kept > 0) ? el('span', {}, dot('kept'), 'kept') : undefined,
    ...[LOST, SINCE].map(({ colour, text }) =>
      isAny(colour) ? el('span', {}, dot(colour, 'hatched'), text) : undefined,
    ),
  );
}

const LOST = { colour: 'lost', text: 'lost' };
const SINCE = { colour: 'running', text: 'since the newest checkpoint' };

/** What the part that is not kept is called. */
function restOf({ end }: AttemptRow): typeof LOST {
  return end === 'running' ? SINCE : LOST;
}

/** How long the attempt ran compared to the longest one, and which part of it was kept. */
function shareOf(one: AttemptRow, longest: number): HTMLElement {
  const { ran, kept } = one;
  const part = (kind: string, colour: string, seconds: number): HTMLElement => {
    const made = el('i', { class: kind });
    made.style.setProperty('--colour', `var(--${colour})`);
    made.style.width = `${(100 * seconds) / longest}%`;
    return made;
  };
  const { colour: restColour, text } = restOf(one);
  const label = `kept ${durationText(kept)}, ${durationText(ran - kept)} ${text}`;
  return el(
    'span',
    { class: 'share', role: 'img', 'aria-label': label, title: label },
    part('solid', 'kept', kept),
    part('hatched', restColour, ran - kept),
  );
}

/** All attempts in one chart, with gaps between them. */
function chartsOf({ attempts, index }: IndexEntry): readonly Chart[] {
  const { times, lines } = usedInTime(attempts);
  // One sample is no curve.
  if (times.length < 2) return [];
  return DRAWN.flatMap(({ line, title, text, ticks }) => {
    const { [line]: values } = lines;
    if (values === undefined) return [];
    const series = [{ title, colour: 'running', values }];
    return [chart({ title, times, series, text, ticks, shape: 'lines', sync: `index ${index}` })];
  });
}
