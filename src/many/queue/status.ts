// `capture queue status`: what waits, runs and has failed, which workers there are, and what no worker can run. As a
// table, as JSON, or refreshed continuously.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Column, fitted, numberText, tableLines } from '../../array/columns.ts';
import type { Tools } from '../../cli/command.ts';
import type { ValuesOf } from '../../cli/options/values.ts';
import type { Output } from '../../cli/output.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { type SeenSubmission, stateOfSubmission, type SubmissionState } from '../../model/many/choose.ts';
import { showJson, showPath } from '../../model/path.ts';
import { formatAge, plural } from '../../model/units.ts';
import type { RunningJob } from './broker.ts';
import type { BullMqQueue } from './bullmq.ts';
import { onQueue } from './command.ts';
import { doneOf, hindranceTexts, look, paceOf, type QueueView, rowTexts, workerText } from './look.ts';
import { QUEUE_STATUS } from './options.ts';
import { addLook, type RateOf } from './rate.ts';

export const statusCommand = onQueue({
  name: 'queue status',
  help: {
    about:
      'Shows each submission: what waits, runs, has failed and is done, how fast it goes and when it ends; and the workers. ' +
      'With a submission, also what runs where, and why tasks have failed.',
    statuses: { 0: 'all are done', 1: 'something waits, runs, has failed or cannot be read' },
    examples: [
      'capture queue status --queue redis://head:6379/lab',
      'capture queue status melt-7 --queue redis://head:6379/lab --watch',
    ],
  },
  options: QUEUE_STATUS,
  read: (options, { operands }) => ({ ...options, name: operands.submission }),
  act: ({ broker }, request, tools) => show(broker, request, tools),
});

interface StatusRequest extends ValuesOf<typeof QUEUE_STATUS> {
  readonly name: string | undefined;
}

/** Cursor to the top left, and erase from there (ECMA-48, CUP and ED). */
const CLEAR = '\u001B[H\u001B[J';

async function show(
  broker: BullMqQueue,
  { name, isJson, isWatched, everyMs }: StatusRequest,
  { out, signal }: Tools,
): Promise<ExitStatus> {
  const rates = new Map<string, RateOf>();
  for (;;) {
    const view = await look(broker, name);
    addLook(rates, view.nowMs, view.shown);
    await out.write(isJson ? `${showJson(jsonOf(view, rates))}\n` : textOf(view, rates, { out, isWatched }));
    const states = view.shown.map((one) => stateOfSubmission(one, view.all));
    // A submission that cannot be read may or may not be done.
    const isKnown = view.isOne || view.unreadable.length === 0;
    const status = isKnown && states.every(({ kind }) => kind === 'over') ? EXIT.ok : SOME_LEFT;
    if (!isWatched || states.every(isEnded)) return status;
    await sleep(everyMs, undefined, { signal });
  }
}

function textOf(
  view: QueueView,
  rates: ReadonlyMap<string, RateOf>,
  { out, isWatched }: { readonly out: Output; readonly isWatched: boolean },
): string {
  const lines = linesOf(view, { rates, width: out.columns }).map((line) => showPath(line));
  return out.isTerminal && isWatched
    ? `${CLEAR}${fitted(lines, out.columns, out.rows ?? Infinity).join('\n')}\n`
    : `${lines.join('\n')}\n`;
}

const SOME_LEFT: ExitStatus = 1;

function isEnded({ kind }: SubmissionState): boolean {
  return kind === 'over' || kind === 'cancelled' || kind === 'failed' || kind === 'halted';
}

const COLUMNS: readonly Column[] = [
  { title: 'SUBMISSION', align: 'left' },
  { title: 'STATE', align: 'left' },
  { title: 'WAITING', align: 'right' },
  { title: 'RUNNING', align: 'right' },
  { title: 'FAILED', align: 'right' },
  { title: 'DONE', align: 'right' },
  { title: '/MIN', align: 'right' },
  { title: 'LEFT', align: 'right' },
  { title: 'NEEDS', align: 'left' },
];

interface OutputForm {
  readonly rates: ReadonlyMap<string, RateOf>;
  readonly width: number;
}

export function linesOf(view: QueueView, { rates, width }: OutputForm): readonly string[] {
  const { all, shown, unreadable, isOne } = view;
  const rows = shown.map((one) => rowOf(one, all, rates.get(one.submission.name)));
  const isEmpty = rows.length === 0 && unreadable.length === 0;
  return [
    ...(isEmpty ? ['the queue is empty'] : []),
    ...(rows.length === 0 ? [] : tableLines(needed(rows), rows, width)),
    ...unreadable.map(({ name, why }) => `${name}: cannot be read: ${why}`),
    ...workerLines(view),
    ...hindranceTexts(view),
    ...(isOne ? detailLines(view) : []),
  ];
}

/** The last column is shown only if a row needs it. */
function needed(rows: readonly (readonly string[])[]): readonly Column[] {
  return rows.some((cells) => cells.at(-1) !== '') ? COLUMNS : COLUMNS.slice(0, -1);
}

function rowOf(
  seen: SeenSubmission,
  all: readonly SeenSubmission[],
  rate: RateOf | undefined,
): readonly string[] {
  const { name, state, waiting, running, failed, done, perMinute, left, needs } = rowTexts(seen, all, rate);
  return [name, state, waiting, running, failed, done, perMinute, left, needs];
}

function workerLines({ workers, running }: QueueView): readonly string[] {
  if (workers === undefined) return ['workers: the server does not tell (CLIENT LIST)'];
  if (workers.length === 0) return ['no worker is here'];
  return [
    `${plural(workers.length, 'worker')}:`,
    ...workers.map((worker) => `  ${workerText(worker, running)}`),
  ];
}

/** Lines on one submission: what runs where, and why tasks have failed. */
function detailLines(view: QueueView): readonly string[] {
  const { failed, nowMs, shown } = view;
  const runs = ofShown(view, view.running);
  const more = shown.reduce((sum, { counts }) => sum + counts.failed, 0) - failed.length;
  return [
    ...(runs.length === 0 ? [] : ['running:']),
    ...runs.map(({ index, worker, sinceMs }) => `  ${index} on ${worker} for ${formatAge(nowMs - sinceMs)}`),
    ...(failed.length === 0 ? [] : ['failed:']),
    ...failed.flatMap(({ index, reason, worker }) => {
      const [first = '', ...rest] = reason.split('\n');
      return [`  ${index} on ${worker}: ${first}`, ...rest.map((line) => `      ${line}`)];
    }),
    ...(more > 0 ? [`  and ${numberText(more)} more`] : []),
  ];
}

function ofShown({ shown }: QueueView, jobs: readonly RunningJob[]): readonly RunningJob[] {
  return jobs.filter(({ submission }) => shown.some((one) => one.submission.name === submission));
}

function jsonOf(view: QueueView, rates: ReadonlyMap<string, RateOf>): object {
  return {
    at: new Date(view.nowMs).toISOString(),
    submissions: view.shown.map((one) => {
      const { perMinute, leftMs } = paceOf(one, rates.get(one.submission.name));
      return {
        name: one.submission.name,
        state: stateOfSubmission(one, view.all).kind,
        size: one.submission.size,
        ...one.counts,
        done: doneOf(one) ?? null,
        dropped: one.submission.dropped ?? 0,
        needs: one.submission.capabilities,
        after: one.submission.after,
        store: one.submission.store.url,
        task: one.submission.taskName,
        perMinute: perMinute === undefined ? null : Number(perMinute.toFixed(3)),
        leftMs: leftMs === undefined ? null : Math.round(leftMs),
      };
    }),
    workers: view.workers ?? null,
    unable: view.unable,
    running: ofShown(view, view.running),
    lost: ofShown(view, view.lost),
    failed: view.failed,
    unreadable: view.unreadable,
  };
}
