// A snapshot of the queue for people. `capture queue status` and `capture queue ui` both show it.
import { numberText } from '../../array/columns.ts';
import { formatIndices } from '../../model/index-set.ts';
import {
  byTurn,
  lackingEverywhere,
  type SeenSubmission,
  stateOfSubmission,
} from '../../model/many/choose.ts';
import { formatMs } from '../../model/units.ts';
import { clockMs } from '../../native/clock.ts';
import { type FailedJob, isLost, type RunningJob, type Unable, type WorkerInfo } from './broker.ts';
import { type BullMqQueue, MOST_RUNNING } from './bullmq.ts';
import type { RateOf } from './rate.ts';
import { noSuch } from './submit.ts';

export interface QueueView {
  readonly nowMs: number;
  /** All submissions, in the order in which workers take them. */
  readonly all: readonly SeenSubmission[];
  /** The one submission that the user asked for, or all. */
  readonly shown: readonly SeenSubmission[];
  /** The user asked for one submission. */
  readonly isOne: boolean;
  readonly unreadable: readonly { readonly name: string; readonly why: string }[];
  /** Sorted by name; undefined if the server does not list its clients. */
  readonly workers: readonly WorkerInfo[] | undefined;
  /** Running workers that take nothing of a waiting submission. */
  readonly unable: readonly (Unable & { readonly submission: string })[];
  /** Running jobs of all submissions whose workers are here. */
  readonly running: readonly RunningJob[];
  /** Jobs of submissions that are not cancelled, whose workers died. They count as waiting. */
  readonly lost: readonly RunningJob[];
  /** Failed jobs of the shown submission, newest first. */
  readonly failed: readonly (FailedJob & { readonly submission: string })[];
}

/** The methods of a queue that a snapshot needs. */
export type Showable = Pick<BullMqQueue, 'place' | 'list' | 'running' | 'failed' | 'workers' | 'unable'>;

const MOST_FAILED = 20;

/** Throws status 64 if the submission `name` does not exist. */
export async function look(broker: Showable, name: string | undefined): Promise<QueueView> {
  const listed = await broker.list();
  const seen = listed
    .filter((one) => one.kind === 'submission')
    .toSorted((a, b) => byTurn(a.submission, b.submission));
  const names = seen.map(({ submission }) => submission.name);
  if (name !== undefined && !names.includes(name)) throw noSuch(name, names, broker.place);
  const withRunning = seen.filter(({ counts }) => counts.running > 0);
  const active = await Promise.all(
    withRunning.map(({ submission }) => broker.running(submission.name, MOST_RUNNING)),
  );
  const failed = name === undefined ? [] : await broker.failed(name, MOST_FAILED);
  const workers = await broker.workers();
  const running = active.flat().filter((job) => !isLost(job, workers));
  const mayReturn = new Set(
    seen.flatMap(({ submission: { cancelledMs, name: one } }) => (cancelledMs === undefined ? [one] : [])),
  );
  const lost = active.flat().filter((job) => isLost(job, workers) && mayReturn.has(job.submission));
  const all = seen.map((one) => withLost(one, lost));
  const shown = name === undefined ? all : all.filter(({ submission }) => submission.name === name);
  const waiting = shown.filter(
    (one) => stateOfSubmission(one, all).kind === 'ready' && (name !== undefined || one.counts.running === 0),
  );
  const unable = await Promise.all(
    waiting.map(async ({ submission }) => {
      const said = await broker.unable(submission.name);
      return said.map((one) => ({ ...one, submission: submission.name }));
    }),
  );
  const isHere = ({ worker }: Unable): boolean => workers?.some((one) => one.name === worker) ?? true;
  return {
    nowMs: clockMs(),
    all,
    shown,
    isOne: name !== undefined,
    unreadable: listed.flatMap((one) => (one.kind === 'unreadable' ? [one] : [])),
    workers: workers?.toSorted((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true })),
    unable: unable.flat().filter(isHere),
    running,
    lost,
    failed: failed.map((one) => ({ ...one, submission: name ?? '' })),
  };
}

function withLost({ submission, counts }: SeenSubmission, lost: readonly RunningJob[]): SeenSubmission {
  const count = lost.filter((job) => job.submission === submission.name).length;
  const { waiting, running } = counts;
  return {
    submission,
    counts: { ...counts, waiting: waiting + count, running: Math.max(0, running - count) },
  };
}

/** The texts of a submission's row; empty if a value is unknown or there is nothing to report. */
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

export function rowTexts(
  seen: SeenSubmission,
  all: readonly SeenSubmission[],
  rate: RateOf | undefined,
): RowTexts {
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

/** How many tasks are done per minute, and how long the rest takes. */
export function paceOf(
  { submission, counts: { waiting, running } }: SeenSubmission,
  rate: RateOf | undefined,
): { readonly perMinute: number | undefined; readonly leftMs: number | undefined } {
  // Cancelled jobs have not ended by themselves.
  if (submission.cancelledMs !== undefined) return { perMinute: undefined, leftMs: undefined };
  const left = waiting + running;
  return {
    // Once all have ended, the rate could only fall.
    perMinute: left > 0 ? rate?.perMinute() : undefined,
    // If nothing runs, the time of the next start is unknown.
    leftMs: running > 0 ? rate?.leftMs(left) : undefined,
  };
}

/** Jobs that are done are removed, and so are cancelled ones: of these it is what was done before. */
export function doneOf({ submission, counts }: SeenSubmission): number | undefined {
  if (submission.cancelledMs !== undefined) return submission.doneBefore;
  return Math.max(0, submission.size - counts.waiting - counts.running - counts.failed);
}

function stateText(seen: SeenSubmission, all: readonly SeenSubmission[]): string {
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
    case 'cancelled': {
      const { dropped = 0 } = seen.submission;
      return dropped === 0 ? 'cancelled' : `cancelled, ${numberText(dropped)} dropped`;
    }
    case 'ready':
      return seen.counts.running > 0 ? 'running' : 'waiting';
    case 'running':
    case 'failed':
      return state.kind;
  }
}

/** `node3.4711: 3 running, has gpu` */
export function workerText({ name, capabilities }: WorkerInfo, running: readonly RunningJob[]): string {
  const runs = running.filter(({ worker }) => worker === name).length;
  const has = capabilities.length === 0 ? '' : `, has ${capabilities.join(', ')}`;
  return `${name}: ${numberText(runs)} running${has}`;
}

/** Why waiting tasks cannot start. */
export function hindranceTexts(view: QueueView): readonly string[] {
  return [...lackingTexts(view), ...unableTexts(view), ...awaitingTexts(view), ...lostTexts(view)];
}

/** `melt 9, 12-14 lost with node3.4711: runs again when a worker is here` */
function lostTexts({ lost, shown, workers = [] }: QueueView): readonly string[] {
  const when = workers.length === 0 ? 'when a worker is here' : 'on another worker';
  return shown.flatMap(({ submission: { name } }) => {
    const mine = lost.filter((job) => job.submission === name);
    return [...new Set(mine.map(({ worker }) => worker))].map((worker) => {
      const indices = mine.filter((job) => job.worker === worker).map(({ index }) => index);
      const which = formatIndices(
        indices.toSorted((a, b) => a - b),
        'slurm',
      );
      return `${name} ${which} lost with ${worker}: runs again ${when}`;
    });
  });
}

/** `solve waits for mesh, which is cancelled: it cannot begin (...)` */
function awaitingTexts({ all, shown }: QueueView): readonly string[] {
  return shown.flatMap((one) => {
    const state = stateOfSubmission(one, all);
    if (state.kind !== 'after') return [];
    const { name } = one.submission;
    return state.names.flatMap((awaited) => {
      const why = whyNeverOver(awaited, all);
      return why === undefined ? [] : [`${name} waits for ${awaited}, which ${why}`];
    });
  });
}

/** Why a submission will not be over by itself, and what helps; undefined: it may. */
function whyNeverOver(name: string, all: readonly SeenSubmission[]): string | undefined {
  const found = all.find(({ submission }) => submission.name === name);
  const again = `submit it again with --again --name ${name}`;
  if (found === undefined) return `is not in the queue: ${again}`;
  switch (stateOfSubmission(found, all).kind) {
    case 'cancelled':
      return `is cancelled: ${again}`;
    case 'failed':
    case 'halted':
      return `has failed: capture queue retry ${name}`;
    default:
      return undefined;
  }
}

/** `no worker has gpu, openfoam: mesh cannot begin` */
function lackingTexts({ all, shown, workers }: QueueView): readonly string[] {
  if (workers === undefined) return [];
  const isShown = (name: string): boolean => shown.some(({ submission }) => submission.name === name);
  return [...lackingEverywhere(all, workers)].flatMap(([capabilities, names]) => {
    const waiting = names.filter(isShown).join(', ');
    return waiting === ''
      ? []
      : [`no worker has ${capabilities.replaceAll(',', ', ')}: ${waiting} cannot begin`];
  });
}

/** `mesh cannot begin on node3.4711, node4.1883: --prepare ended with exit status 2` */
function unableTexts({ unable }: QueueView): readonly string[] {
  const same = new Map<
    string,
    { readonly submission: string; readonly why: string; readonly workers: string[] }
  >();
  for (const { submission, why, worker } of unable) {
    const key = JSON.stringify([submission, why]);
    const group = same.get(key) ?? { submission, why, workers: [] };
    group.workers.push(worker);
    same.set(key, group);
  }
  return [...same.values()].map(
    ({ submission, why, workers }) => `${submission} cannot begin on ${workers.join(', ')}: ${why}`,
  );
}
