// The data in the page of `capture report`: the program writes it, the page reads it. Times are seconds since the
// epoch, or durations in seconds, to the millisecond: only page/words.ts rounds, so that a time reads the same
// everywhere. They are kept short, because there may be 10,000 indices.
import type { State } from '../../model/format/json-output.ts';
import type { Metric } from '../../model/format/resources.ts';

/** How an attempt ended. `killed`: it left no record of its end. */
export const ENDS = ['failed', 'killed', 'preempted', 'ended', 'running', 'done'] as const;
export type End = (typeof ENDS)[number];

/** The series that the page draws for an attempt. */
export const LINES = ['taskCpu', 'taskMemory', 'taskWritten', 'space'] as const satisfies readonly Metric[];
export type Line = (typeof LINES)[number];

/** Numbers in multiples of `unit`, one per step; null where nothing was measured. */
export interface Values {
  readonly unit: number;
  readonly values: readonly (number | null)[];
}

/** What an attempt used over time. */
export interface Used {
  readonly from: number;
  readonly step: number;
  readonly lines: { readonly [line in Line]?: Values };
}

export interface AttemptRow {
  readonly attempt: number;
  readonly from: number;
  /** From its start to its last sign of life, s. */
  readonly ran: number;
  /** The part of it that no later attempt had, or would have, to compute again, s. */
  readonly kept: number;
  readonly end: End;
  /** Its position among the texts of the head, as for all repeated texts. */
  readonly host: number;
  readonly how: number;
  /** The checkpoint that it resumed from. */
  readonly restored?: string | undefined;
  readonly used?: Used | undefined;
}

/** The last lines of one stream, safe to show. */
export interface Said {
  readonly stream: string;
  readonly lines: readonly string[];
}

export interface IndexEntry {
  readonly index: string;
  readonly state: State;
  /** For `failed`: capture's exit status. */
  readonly status?: number | undefined;
  /** Why its last attempt failed or was asked to end, in a few words. */
  readonly why?: string | undefined;
  /** Ascending. If there are very many, only the newest. */
  readonly attempts: readonly AttemptRow[];
  /** Totals of the attempts before those. */
  readonly earlier?: { readonly attempts: number; readonly ran: number; readonly kept: number } | undefined;
  readonly results?: number | undefined;
  /** Size of the results, before compression. */
  readonly bytes?: number | undefined;
  /** Size of the objects: results, and checkpoints that are kept. */
  readonly storedBytes?: number | undefined;
  /** The peak memory of a task, over all attempts. */
  readonly peakBytes?: number | undefined;
  /** The job's memory limit from its scheduler or container. */
  readonly limitBytes?: number | undefined;
  /** CPU seconds of the tasks of all attempts. */
  readonly cpu?: number | undefined;
  /** Time of the newest checkpoint, s since the epoch. */
  readonly checkpoint?: number | undefined;
  /** The first few files that the last attempt could not store. */
  readonly left?: readonly string[] | undefined;
  /** The last lines of the output of the newest attempt, if it has failed or vanished. */
  readonly said?: readonly Said[] | undefined;
}

/** Data that the page has once. */
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

/** Lost seconds. A running attempt has lost nothing yet. */
export function lostOf({ ran, kept, end }: AttemptRow): number {
  return end === 'running' ? 0 : ran - kept;
}

/** The last sign of life of an attempt, s since the epoch: its newest record, by the clock of its machine. */
export function lastSignOf({ from, ran }: AttemptRow): number {
  return from + ran;
}

/** The number of attempts, and their total seconds. */
export interface Effort {
  readonly attempts: number;
  readonly ran: number;
  readonly kept: number;
  readonly lost: number;
}

export function effortOf({ attempts, earlier }: IndexEntry): Effort {
  let { attempts: count, ran, kept } = earlier ?? { attempts: 0, ran: 0, kept: 0 };
  let lost = ran - kept;
  for (const one of attempts) {
    count += 1;
    ran += one.ran;
    kept += one.kept;
    lost += lostOf(one);
  }
  return { attempts: count, ran, kept, lost };
}

/** The work of an index that checkpoints saved: kept work of attempts that did not finish it themselves. */
export function savedOf({ attempts, earlier }: IndexEntry): number {
  const interrupted = attempts.filter(({ end }) => end !== 'done' && end !== 'running');
  return interrupted.reduce((sum, { kept }) => sum + kept, earlier?.kept ?? 0);
}

/** Lost seconds by the end of the attempts. */
export function lossesOf(entries: Iterable<IndexEntry>): ReadonlyMap<End, number> {
  const lost = new Map<End, number>();
  for (const { attempts } of entries)
    for (const one of attempts) lost.set(one.end, (lost.get(one.end) ?? 0) + lostOf(one));
  return lost;
}

/** The newest attempt and its end: the first question about a failed index. */
export function lastOf({ attempts }: IndexEntry): AttemptRow | undefined {
  return attempts.at(-1);
}
