// What stands in the page of `capture report`: the program writes it, the page reads it. Times are seconds since the
// epoch, or durations in seconds: as short as they can be, for there may be 10,000 indices.
import type { Metric } from '../../model/format/resources.ts';
import type { State } from '../state.ts';

/** How an attempt ended. `killed`: it never said that it did. */
export const ENDS = ['failed', 'killed', 'preempted', 'ended', 'running', 'done'] as const;
export type End = (typeof ENDS)[number];

/** The lines that the page draws of an attempt. */
export const LINES = ['taskCpu', 'taskMemory', 'taskWritten', 'space'] as const satisfies readonly Metric[];
export type Line = (typeof LINES)[number];

/** Numbers in multiples of `unit`, one a step; null where nothing was seen. */
export interface Values {
  readonly unit: number;
  readonly values: readonly (number | null)[];
}

/** What an attempt used, in time. */
export interface Used {
  readonly from: number;
  readonly step: number;
  readonly lines: { readonly [line in Line]?: Values };
}

export interface AttemptRow {
  readonly attempt: number;
  readonly from: number;
  /** How long it was at work, s. */
  readonly ran: number;
  /** Of that what nobody had, or has, to compute again, s. */
  readonly kept: number;
  readonly end: End;
  /** Its place in the texts of the head, as all that occurs again and again. */
  readonly host: number;
  readonly how: number;
  /** The checkpoint that it resumed from. */
  readonly restored?: string | undefined;
  readonly used?: Used | undefined;
}

export interface IndexEntry {
  readonly index: string;
  readonly state: State;
  /** Of `failed`: what capture exited with. */
  readonly status?: number | undefined;
  /** Ascending; of very many only the newest. */
  readonly attempts: readonly AttemptRow[];
  /** Of the attempts before those. */
  readonly earlier?: { readonly attempts: number; readonly ran: number; readonly kept: number } | undefined;
  readonly results?: number | undefined;
  /** Of the results, before compression. */
  readonly bytes?: number | undefined;
  /** Of the objects: results and the checkpoints that are kept. */
  readonly storedBytes?: number | undefined;
  /** The most that a task of any attempt had. */
  readonly peakBytes?: number | undefined;
  /** Of the job, as its scheduler or container limits it. */
  readonly limitBytes?: number | undefined;
  /** CPU seconds of the tasks of all attempts. */
  readonly cpu?: number | undefined;
  /** Of the newest checkpoint, s since the epoch. */
  readonly checkpoint?: number | undefined;
  /** What the last attempt could not store; the first few. */
  readonly left?: readonly string[] | undefined;
}

/** What stands once in the page. */
export interface ReportHead {
  readonly format: 1;
  readonly store: string;
  readonly task: string;
  /** By the store's clock. */
  readonly now: number;
  readonly capture: string;
  readonly texts: readonly string[];
}

/** The report as the page has it in memory. */
export interface Report {
  readonly head: ReportHead;
  readonly entries: readonly IndexEntry[];
}

export function textOf({ head }: Report, at: number): string {
  return head.texts[at] ?? '';
}

/** How many attempts there were, and the seconds of all of them. */
export interface Effort {
  readonly attempts: number;
  readonly ran: number;
  readonly kept: number;
  readonly lost: number;
}

export function effortOf({ attempts, earlier }: IndexEntry): Effort {
  let [count, ran, kept] = [earlier?.attempts ?? 0, earlier?.ran ?? 0, earlier?.kept ?? 0];
  for (const one of attempts) {
    count += 1;
    ran += one.ran;
    kept += one.kept;
  }
  return { attempts: count, ran, kept, lost: ran - kept };
}

/** What checkpoints have saved of an index: kept work of attempts that did not bring it to its end themselves. */
export function savedOf({ attempts, earlier }: IndexEntry): number {
  const interrupted = attempts.filter(({ end }) => end !== 'done' && end !== 'running');
  return interrupted.reduce((sum, { kept }) => sum + kept, earlier?.kept ?? 0);
}

/** Seconds lost, by how the attempts ended. */
export function lossesOf(entries: Iterable<IndexEntry>): ReadonlyMap<End, number> {
  const lost = new Map<End, number>();
  for (const { attempts } of entries)
    for (const { end, ran, kept } of attempts) lost.set(end, (lost.get(end) ?? 0) + ran - kept);
  return lost;
}

/** The newest attempt, and how it ended: what a person asks first of one that failed. */
export function lastOf({ attempts }: IndexEntry): AttemptRow | undefined {
  return attempts.at(-1);
}
