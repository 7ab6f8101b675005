// The queue at one moment, for people: `capture queue status` and `capture queue ui` both show it.
import { numberText } from '../../array/columns.ts';
import { byTurn, lackingEverywhere, type Seen, stateOfSubmission } from '../../model/many/choose.ts';
import { formatMs } from '../../model/units.ts';
import { clockMs } from '../../native/clock.ts';
import type { FailedJob, QueueBroker, RunningJob, WorkerInfo } from './broker.ts';
import type { RateOf } from './rate.ts';
import { noSuch } from './submit.ts';

export interface QueueView {
  readonly nowMs: number;
  /** The first in turn first. */
  readonly all: readonly Seen[];
  /** Of these the one that was asked for, or all. */
  readonly shown: readonly Seen[];
  /** One was asked for. */
  readonly isOne: boolean;
  readonly unreadable: readonly { readonly name: string; readonly why: string }[];
  /** By name; undefined: the server does not tell. */
  readonly workers: readonly WorkerInfo[] | undefined;
  /** Of all submissions. */
  readonly running: readonly RunningJob[];
  /** Of the one that was asked for, the newest. */
  readonly failed: readonly (FailedJob & { readonly submission: string })[];
}

/** What is asked of a queue to show it. */
export type Showable = Pick<QueueBroker, 'place' | 'list' | 'running' | 'failed' | 'workers'>;

const MOST_RUNNING = 1000;
const MOST_FAILED = 20;

/** Throws status 64 if `name` is not there. */
export async function look(broker: Showable, name: string | undefined): Promise<QueueView> {
  const listed = await broker.list();
  const all = listed
    .filter((one) => one.kind === 'submission')
    .toSorted((a, b) => byTurn(a.submission, b.submission));
  const names = all.map(({ submission }) => submission.name);
  if (name !== undefined && !names.includes(name)) throw noSuch(name, names, broker.place);
  const withRunning = all.filter(({ counts }) => counts.running > 0);
  const running = await Promise.all(
    withRunning.map(({ submission }) => broker.running(submission.name, MOST_RUNNING)),
  );
  const failed = name === undefined ? [] : await broker.failed(name, MOST_FAILED);
  const workers = await broker.workers();
  return {
    nowMs: clockMs(),
    all,
    shown: name === undefined ? all : all.filter(({ submission }) => submission.name === name),
    isOne: name !== undefined,
    unreadable: listed.flatMap((one) => (one.kind === 'unreadable' ? [one] : [])),
    workers: workers?.toSorted((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true })),
    running: running.flat(),
    failed: failed.map((one) => ({ ...one, submission: name ?? '' })),
  };
}

/** What a row says of a submission, as text; empty: nothing is known, or there is nothing to say. */
export interface RowTexts {
  readonly name: string;
  readonly state: string;
  readonly waiting: string;
  readonly running: string;
  readonly failed: string;
  readonly done: string;
  readonly perMinute: string;
  readonly left: string;
  readonly needs: string;
}

export function rowTexts(seen: Seen, all: readonly Seen[], rate: RateOf | undefined): RowTexts {
  const { submission, counts } = seen;
  const { waiting, running, failed } = counts;
  const { perMinute, leftMs } = paceOf(seen, rate);
  const done = doneOf(seen);
  return {
    name: submission.name,
    state: stateText(seen, all),
    waiting: numberText(waiting),
    running: numberText(running),
    failed: numberText(failed),
    done: done === undefined ? '' : numberText(done),
    perMinute: perMinute === undefined ? '' : perMinute.toFixed(1),
    left: leftMs === undefined ? '' : formatMs(leftMs),
    needs: submission.capabilities.join(', '),
  };
}

/** How many are done in a minute, and how long the rest takes. */
export function paceOf(
  { submission, counts: { waiting, running } }: Seen,
  rate: RateOf | undefined,
): { readonly perMinute: number | undefined; readonly leftMs: number | undefined } {
  // What was dropped has not ended.
  if (submission.cancelledMs !== undefined) return { perMinute: undefined, leftMs: undefined };
  const left = waiting + running;
  return {
    // When all have ended it would only fall.
    perMinute: left > 0 ? rate?.perMinute() : undefined,
    // Nobody knows when somebody begins.
    leftMs: running > 0 ? rate?.leftMs(left) : undefined,
  };
}

/** A job that is done is gone; one that was cancelled, too: then only the store knows. */
export function doneOf({ submission, counts }: Seen): number | undefined {
  if (submission.cancelledMs !== undefined) return undefined;
  return Math.max(0, submission.size - counts.waiting - counts.running - counts.failed);
}

function stateText(seen: Seen, all: readonly Seen[]): string {
  const state = stateOfSubmission(seen, all);
  switch (state.kind) {
    case 'after':
      return `after ${state.names.join(', ')}`;
    case 'halted':
      return 'halted by failures';
    case 'empty':
      return 'checking';
    case 'over':
      return 'done';
    case 'ready':
      return seen.counts.running > 0 ? 'running' : 'waiting';
    case 'running':
    case 'failed':
    case 'cancelled':
      return state.kind;
  }
}

/** `node3.4711: 3 running, has gpu` */
export function workerText({ name, capabilities }: WorkerInfo, running: readonly RunningJob[]): string {
  const runs = running.filter(({ worker }) => worker === name).length;
  const has = capabilities.length === 0 ? '' : `, has ${capabilities.join(', ')}`;
  return `${name}: ${numberText(runs)} running${has}`;
}

/** `no worker has gpu, openfoam: mesh cannot begin` */
export function lackingTexts({ all, shown, workers }: QueueView): readonly string[] {
  if (workers === undefined) return [];
  const isShown = (name: string): boolean => shown.some(({ submission }) => submission.name === name);
  return [...lackingEverywhere(all, workers)].flatMap(([capabilities, names]) => {
    const waiting = names.filter(isShown).join(', ');
    return waiting === ''
      ? []
      : [`no worker has ${capabilities.replaceAll(',', ', ')}: ${waiting} cannot begin`];
  });
}
