// `capture status <url> <index>`: everything that the records of one index say. Its attempts in order, its checkpoint
// sets, its files, and the resources that its newest attempt used.
import type { LastOutput, OneIndexStatus, State } from '../../model/format/json-output.ts';
import { describeFiles, setWords } from '../../model/checkpoint/generation-words.ts';
import { generationName } from '../../model/checkpoint/history.ts';
import type { CaptureRecord, Generation, StoredFile } from '../../model/format/records.ts';
import { type Metric, type Resources, usedWords, valuesOf } from '../../model/format/resources.ts';
import { showJson, showPath } from '../../model/path.ts';
import { formatBytes, formatMs } from '../../model/units.ts';
import { clockMs } from '../../native/clock.ts';
import { listRecords } from '../../records/list.ts';
import { type Column, tableLines } from '../columns.ts';
import type { Tools } from '../../cli/command.ts';
import { type Contents, contentsIn } from '../contents.ts';
import { isWorthAsking, lastOutput, streamText } from '../last-output.ts';
import { byPath } from '../natural-order.ts';
import { noIndex, type StoredArray } from '../stored-array.ts';
import { DAMAGED, stateOf, stateText } from '../state.ts';
import { SlurmJobs } from '../slurm-jobs.ts';
import { type IndexRow, type Survey, surveyIndex } from '../survey.ts';
import { attemptView } from '../attempt.ts';
import type { StatusRequest } from './options.ts';

/** The data of the records, in the order of the output. */
interface IndexView extends OneIndexStatus {
  readonly generations: readonly Generation[];
  readonly results: readonly StoredFile[];
  readonly partials: readonly StoredFile[];
  readonly resources: (Resources & { readonly attempt: number }) | undefined;
}

/** Resolves to whether the index is done and its record can be read. Throws status 66 if nothing of it is stored. */
export async function showIndex(
  array: StoredArray,
  index: string,
  { staleAfterMs, json }: StatusRequest,
  tools: Tools,
): Promise<boolean> {
  const { out, log, signal } = tools;
  const look = (): Promise<Survey> => surveyIndex(array, index, clockMs(), signal);
  const { rows, nowMs } = await new SlurmJobs(tools).mark({ array, staleAfterMs, all: false }, look);
  const [row] = rows;
  if (row === undefined) throw noIndex(array, index);
  const listing = await listRecords(array.store, { taskName: array.taskName, index }, signal);
  const contents = await contentsIn(array, listing, signal);
  for (const problem of contents.problems) log.warn(problem, { event: 'damaged', index });
  const state = stateOf(row, nowMs, staleAfterMs);
  const said = isWorthAsking(state)
    ? await lastOutput(array, { index, attempt: row.newest.attempt }, { log, signal })
    : [];
  const view = viewOf(array, { row, contents, state, said });
  if (json) await out.line(showJson({ format: 1, store: array.store.url, ...view }));
  else for (const line of linesOf(view)) await out.line(line);
  return state === 'done' && !view.isDamaged;
}

interface StoredIndex {
  readonly row: IndexRow;
  readonly contents: Contents;
  readonly state: State;
  readonly said: readonly LastOutput[];
}

function viewOf(array: StoredArray, { row, contents, state, said }: StoredIndex): IndexView {
  const { attempts, damaged, generations, results, partials, left } = contents;
  return {
    index: row.index,
    task: array.taskName,
    state,
    requeued: (state === 'preempted' && row.job === 'alive') || undefined,
    status: row.newest.status,
    isDamaged: damaged.has(row.newest.attempt),
    attempts: attempts.map(({ record }) =>
      attemptView(record, {
        isNewest: record.attempt === row.newest.attempt,
        damaged: damaged.get(record.attempt),
        state,
      }),
    ),
    generations,
    results,
    partials,
    left,
    lastOutput: said,
    noOutput:
      said.length > 0 || !isWorthAsking(state) ? undefined : whyNoOutput(state, attempts.at(-1)?.record),
    resources: newestResources(attempts.map(({ record }) => record)),
  };
}

function whyNoOutput(state: State, newest: CaptureRecord | undefined): string | undefined {
  if (state === 'failed') return newest?.end?.noOutput;
  return 'they are stored when an attempt ends; while it runs, only with --log-output';
}

/** A claim contains no resources. */
function newestResources(records: readonly CaptureRecord[]): IndexView['resources'] {
  const { attempt, resources } = records.findLast((record) => record.resources !== undefined) ?? {};
  return attempt === undefined || resources === undefined ? undefined : { ...resources, attempt };
}

const ATTEMPTS: readonly Column[] = [
  { title: 'ATTEMPT', align: 'right' },
  { title: 'STARTED', align: 'left' },
  { title: 'LASTED', align: 'right' },
  { title: 'HOST', align: 'left' },
  { title: 'FROM', align: 'left' },
  { title: 'HOW IT ENDED', align: 'left' },
];
const SETS: readonly Column[] = [
  { title: 'CHECKPOINT', align: 'left' },
  { title: 'COMMITTED', align: 'left' },
  { title: 'WHAT IT IS', align: 'left' },
];
const FILES: readonly Column[] = [
  { title: 'MD5', align: 'left' },
  { title: 'SIZE', align: 'right' },
  { title: 'ATTEMPT', align: 'right' },
  { title: 'FILE', align: 'left' },
];

/** Lines are not cut to the terminal's width, because the important part, a reason or a name, is at the end. */
function linesOf(view: IndexView): readonly string[] {
  const { index, task, attempts, generations, results, partials, left, resources } = view;
  const parts: (readonly string[])[] = [
    tableLines(
      ATTEMPTS,
      attempts.map(({ attempt, startedAt, lastedMs, host, restored, how }) => {
        return [String(attempt), timeText(startedAt), formatMs(lastedMs), host, restored ?? '', how];
      }),
      Infinity,
    ),
  ];
  if (generations.length > 0) {
    const rows = generations.map((one) => [
      generationName(one),
      timeText(one.at),
      `${setWords(one)} (${describeFiles(one)})`,
    ]);
    parts.push(tableLines(SETS, rows, Infinity));
    const [newest] = generations;
    if (newest !== undefined) parts.push(fileLines('CHECKPOINT FILE', byPath(newest.members)));
  }
  if (results.length > 0) parts.push(fileLines('RESULT', results));
  if (partials.length > 0) parts.push(fileLines('STAGED RESULT', partials));
  if (left.length > 0) parts.push(left.map(({ path, why }) => `not stored: ${showPath(path)}: ${why}`));
  for (const { stream, lines } of view.lastOutput)
    parts.push([`last lines of ${streamText(stream)}:`, ...lines.map((line) => `  ${line}`)]);
  if (view.noOutput !== undefined) parts.push([`no last lines of its output: ${showPath(view.noOutput)}`]);
  if (resources !== undefined) parts.push(resourceLines(resources));
  const damage = view.isDamaged ? DAMAGED : '';
  return [
    `index ${index} of ${task}: ${stateText({ ...view, why: view.requeued === true ? 'requeued' : undefined })}${damage}`,
    ...parts.flatMap((lines) => ['', ...lines]),
  ];
}

function fileLines(title: string, files: readonly StoredFile[]): readonly string[] {
  const columns = FILES.map((column) => (column.title === 'FILE' ? { ...column, title } : column));
  const rows = files.map(({ md5, size, attempt, path, secret }) => [
    secret === undefined ? md5 : 'sealed',
    formatBytes(size),
    String(attempt),
    showPath(path),
  ]);
  return tableLines(columns, rows, Infinity);
}

/** `2026-11-22 10:00:03Z`; text that is no time stays unchanged. */
function timeText(iso: string): string {
  return iso.replace(/^(\S+)T(\d\d:\d\d:\d\d)(\.\d+)?Z$/, '$1 $2Z');
}

/** Each series, and the meaning of its highest block. */
const SHOWN: readonly {
  readonly metric: Metric;
  readonly title: string;
  readonly unit: (most: number) => string;
}[] = [
  { metric: 'taskCpu', title: 'CPU', unit: (most) => `${most.toFixed(1)} cores` },
  { metric: 'taskMemory', title: 'memory', unit: formatBytes },
  { metric: 'jobMemory', title: 'memory of the job', unit: formatBytes },
  { metric: 'taskRead', title: 'read', unit: (most) => `${formatBytes(most)}/s` },
  { metric: 'taskWritten', title: 'written', unit: (most) => `${formatBytes(most)}/s` },
  { metric: 'space', title: 'file system', unit: formatBytes },
];

function resourceLines(resources: NonNullable<IndexView['resources']>): readonly string[] {
  const { attempt, task, job, stepS } = resources;
  const lines = SHOWN.flatMap(({ metric, title, unit }) => {
    const values = valuesOf(resources, metric, 'max');
    const most = Math.max(0, ...values.map((value) => value ?? 0));
    return values.length === 0
      ? []
      : [`${title.padEnd(17)}  ${sparkline(values)}  highest sample ${unit(most)}`];
  });
  const used = task === undefined ? [] : usedWords(task);
  const limit =
    job === undefined ? [] : [`job ${formatBytes(job.peakMemoryBytes)} of ${formatBytes(job.limitBytes)}`];
  return [
    `attempt ${attempt}, a block for ${formatMs(stepS * 1000)}: ${[...used, ...limit].join(', ')}`,
    ...lines,
  ];
}

const BLOCKS = '▁▂▃▄▅▆▇█';

/** Draws numbers as one line of blocks, from zero to the maximum; a space where nothing was measured. */
function sparkline(values: readonly (number | undefined)[]): string {
  const highest = Math.max(0, ...values.map((value) => value ?? 0));
  return values
    .map((value) => {
      if (value === undefined) return ' ';
      const at = highest === 0 ? 0 : Math.round((value / highest) * (BLOCKS.length - 1));
      return BLOCKS[at] ?? '';
    })
    .join('');
}
