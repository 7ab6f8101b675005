// `capture status` for people. Rows that need attention come first, up to the height of the terminal, followed by the
// counts. Missing indices are summarised in one line, because only their numbers are known.
import type { State } from '../../model/format/json-output.ts';
import { formatIndices } from '../../model/index-set.ts';
import { formatBytes } from '../../model/units.ts';
import { readAhead } from '../../model/waiting.ts';
import { numberText, tableLines, type Column } from '../columns.ts';
import type { Tools } from '../../cli/command.ts';
import { newestRecord, READS_AT_ONCE } from '../details.ts';
import type { Colour } from '../../cli/output.ts';
import { countsText, type IndexState, STATES, stateText, totalOf } from '../state.ts';
import { ageText, isRequeued, storedOf, type View } from './view.ts';

/** A distant store returns about this many records in a second; --details reads more. */
const MOST_READ = 100;
/** The table's header, `... and more`, the summary, and the prompt of the shell. */
const OTHER_LINES = 4;

const COLOURS: Readonly<Record<State, Colour>> = {
  failed: 'red',
  stale: 'magenta',
  missing: 'yellow',
  preempted: 'cyan',
  ended: 'gray',
  running: 'blue',
  done: 'green',
};

/** A line of the table, by column. */
interface Row {
  readonly state: State;
  /** Set only for rows whose record was read. */
  readonly isDamaged?: boolean;
  readonly cells: readonly string[];
}

const COLUMNS: readonly Column[] = [
  { title: 'INDEX', align: 'left' },
  { title: 'STATE', align: 'left' },
  { title: 'ATTEMPTS', align: 'right' },
  { title: 'LAST SIGN', align: 'right' },
  { title: 'CHECKPOINT', align: 'right' },
];
const DETAILED: readonly Column[] = [
  ...COLUMNS,
  { title: 'RESULTS', align: 'right' },
  { title: 'SIZE', align: 'right' },
  { title: 'PEAK MEM', align: 'right' },
  { title: 'HOST', align: 'left' },
];

/** Resolves to whether all records that were read are whole. */
export async function writeTable(view: View, tools: Tools): Promise<boolean> {
  const { out } = tools;
  const total = totalOf(view.counts);
  const others = OTHER_LINES + (view.counts.missing > 0 ? 1 : 0);
  const most = view.all || out.rows === undefined ? Infinity : Math.max(1, out.rows - others);
  const shown = byNeed(view, most);
  const isDetailed = view.details || shown.length <= MOST_READ;
  const rows = isDetailed ? await detailed(shown, view, tools) : shown.map((one) => rowOf(one, view));
  const missing = missingRow(view, isDetailed);
  const all = missing === undefined ? rows : [missing, ...rows];
  const lines = tableLines(
    isDetailed ? DETAILED : COLUMNS,
    all.map(({ cells }) => cells),
    out.columns,
  );
  for (const [at, line] of lines.entries()) {
    const row = all[at - 1];
    await out.line(line, row === undefined ? 'bold' : COLOURS[row.state]);
  }
  const more = total - view.counts.missing - shown.length;
  if (more > 0) await out.write(`... and ${numberText(more)} more (--all)\n`);
  await out.write(`${summaryOf(view, tools)}\n`);
  return rows.every(({ isDamaged }) => isDamaged !== true);
}

export function summaryOf({ counts }: View, { out }: Pick<Tools, 'out'>): string {
  return countsText(counts, (state, text) => out.paint(COLOURS[state], text));
}

/** States that need attention come first; within a state, the order is by index. */
function byNeed(view: View, most: number): readonly IndexState[] {
  const shown: IndexState[] = [];
  for (const state of STATES) {
    if (state === 'missing' || view.counts[state] === 0) continue;
    for (const one of view.states()) {
      if (shown.length >= most) return shown;
      if (one.state === state) shown.push(one);
    }
  }
  return shown;
}

async function detailed(
  shown: readonly IndexState[],
  view: View,
  { log, signal }: Tools,
): Promise<readonly Row[]> {
  const rows: Row[] = [];
  const read = async (one: IndexState): Promise<Row> => {
    if (one.row === undefined) return rowOf(one, view);
    const found = await newestRecord(view.array, one.row, signal);
    for (const problem of found.problems) log.warn(problem, { event: 'damaged', index: one.index });
    const { results = 0, bytes = 0, host = '', peakMemoryBytes, why } = storedOf(found, one.row) ?? {};
    const { state, cells } = rowOf(one, view, why);
    const size = results === 0 ? '' : formatBytes(bytes);
    const memory = peakMemoryBytes === undefined ? '' : formatBytes(peakMemoryBytes);
    const isDamaged = found.problems.length > 0;
    return { state, isDamaged, cells: [...cells, numberText(results), size, memory, host] };
  };
  for await (const row of readAhead(shown, READS_AT_ONCE, read)) rows.push(row);
  return rows;
}

function whyText(one: IndexState, view: View, why: string | undefined): string | undefined {
  if (!isRequeued(one, view)) return why;
  return why === undefined || why === 'requeued' ? 'requeued' : `${why}, requeued`;
}

/** `why`: according to the record, if it was read. */
function rowOf(one: IndexState, view: View, why?: string): Row {
  const { index, state, row } = one;
  const { attempts = 0, seenMs, checkpointMs } = row ?? {};
  const cells = [
    index,
    stateText({ state, status: row?.newest.status, why: whyText(one, view, why) }),
    numberText(attempts),
    ageText(view, seenMs),
    ageText(view, checkpointMs),
  ];
  return { state, cells };
}

function missingRow(view: View, isDetailed: boolean): Row | undefined {
  if (view.counts.missing === 0) return undefined;
  const numbers = function* numbers(): Generator<number> {
    for (const { index, state } of view.states()) if (state === 'missing') yield Number(index);
  };
  const blank = (isDetailed ? DETAILED : COLUMNS).slice(2).map(() => '');
  return { state: 'missing', cells: [formatIndices(numbers(), 'slurm'), 'missing', ...blank] };
}
