// Converts the records of an index into its entry in the page. Texts that repeat go into a common list.
import { workTimes, type WorkTime } from './work-time.ts';
import type { LastOutput } from '../../model/format/json-output.ts';
import type { WholeRecord } from '../../model/checkpoint/history.ts';
import { type CaptureRecord, isLast, type StoredFile } from '../../model/format/records.ts';
import { showPath } from '../../model/path.ts';
import type { AttemptRow, End, IndexEntry, Said } from './data.ts';
import { type AboutAttempt, attemptView, whyOf } from '../attempt.ts';
import type { IndexDetails, NamedRecord } from '../details.ts';
import { streamText } from '../last-output.ts';
import type { IndexState } from '../state.ts';
import { usedOf } from './used.ts';

/** If an index has more attempts, the page shows the newest. */
const MOST_ATTEMPTS = 200;
/** Longer reasons are cut. */
const MOST_CHARACTERS = 300;
const MOST_LEFT = 20;

/** Stores each text once, and numbers it. */
export class Texts {
  readonly #numbers = new Map<string, number>();

  /** The text is made safe to show, because names of tasks and hosts may contain anything. */
  numberOf(text: string): number {
    const shown = shortened(text);
    const number = this.#numbers.get(shown) ?? this.#numbers.size;
    this.#numbers.set(shown, number);
    return number;
  }

  get all(): readonly string[] {
    return [...this.#numbers.keys()];
  }
}

/** What all entries of a page share. */
export interface Page {
  readonly texts: Texts;
  readonly nowMs: number;
  /** How many steps a series may have. */
  readonly mostSteps: number;
}

/** `details` is undefined if the index is missing. */
export function entryOf(
  { index, state, row }: IndexState,
  details: IndexDetails | undefined,
  page: Page,
): IndexEntry {
  if (details === undefined || row === undefined) return { index, state, attempts: [] };
  const records = details.attempts.map(({ record }) => asNamed(record, details.damaged.get(record.attempt)));
  const times = workTimes(records, state);
  const rows = records.map((record, at) =>
    attemptRow(record, times[at], {
      isNewest: record.attempt === row.newest.attempt,
      damaged: details.damaged.get(record.attempt),
      state,
      page,
    }),
  );
  const before = rows.slice(0, -MOST_ATTEMPTS);
  return {
    index,
    state,
    status: row.newest.status,
    why: whyOfLast(details),
    attempts: rows.slice(-MOST_ATTEMPTS),
    earlier: before.length === 0 ? undefined : togetherOf(before),
    ...storageOf(details.attempts.findLast(({ record }) => record.seq > 0)),
    ...peaksOf(records),
  };
}

function whyOfLast({ attempts, damaged }: IndexDetails): string | undefined {
  const { record } = attempts.at(-1) ?? {};
  if (record === undefined || damaged.has(record.attempt)) return undefined;
  const why = whyOf(record);
  return why === undefined ? undefined : showPath(why);
}

interface AttemptContext extends AboutAttempt {
  readonly page: Page;
}

/** The key tells the kind of the newest record, even if the record cannot be read. */
function asNamed(record: CaptureRecord, damaged: NamedRecord | undefined): CaptureRecord {
  return damaged === undefined ? record : { ...record, kind: damaged.kind };
}

function attemptRow(record: CaptureRecord, time: WorkTime | undefined, about: AttemptContext): AttemptRow {
  const { attempt, startedAt, restored, host, resources } = record;
  const { how } = attemptView(record, about);
  const { texts, mostSteps } = about.page;
  return {
    attempt,
    from: secondsOf(Date.parse(startedAt)),
    ran: secondsOf(time?.ranMs ?? 0),
    kept: secondsOf(time?.keptMs ?? 0),
    end: endOf(record, about),
    host: texts.numberOf(host),
    how: texts.numberOf(how),
    restored,
    used: usedOf(resources, mostSteps),
  };
}

function endOf({ kind }: CaptureRecord, { isNewest, state }: AttemptContext): End {
  if (isLast(kind)) return kind === 'done' || kind === 'failed' || kind === 'preempted' ? kind : 'ended';
  return isNewest && state === 'running' ? 'running' : 'killed';
}

function togetherOf(rows: readonly AttemptRow[]): NonNullable<IndexEntry['earlier']> {
  const sum = (of: (row: AttemptRow) => number): number => rows.reduce((total, row) => total + of(row), 0);
  return { attempts: rows.length, ran: sum(({ ran }) => ran), kept: sum(({ kept }) => kept) };
}

type Storage = Pick<IndexEntry, 'results' | 'bytes' | 'storedBytes' | 'checkpoint' | 'left'>;

/** According to the newest record that says what is stored. */
function storageOf(newest: WholeRecord | undefined): Storage {
  if (newest === undefined) return {};
  const { generations, left } = newest.record;
  const objects = new Map<string, number>();
  const sizes = new Map<string, number>();
  const count = ({ key, size, storedSize = size }: StoredFile): void => void objects.set(key, storedSize);
  for (const file of newest.results) {
    sizes.set(file.path, file.size);
    count(file);
  }
  for (const { members } of generations) members.forEach(count);
  const [last] = generations;
  return {
    results: sizes.size,
    bytes: total(sizes.values()),
    storedBytes: total(objects.values()),
    checkpoint: last === undefined ? undefined : secondsOf(Date.parse(last.at)),
    left:
      left.length === 0
        ? undefined
        : left.slice(0, MOST_LEFT).map(({ path, why }) => shortened(`${path}: ${why}`)),
  };
}

function peaksOf(records: readonly CaptureRecord[]): Pick<IndexEntry, 'peakBytes' | 'limitBytes' | 'cpu'> {
  const seen = records.flatMap(({ resources }) => resources ?? []);
  const tasks = seen.flatMap(({ task }) => task ?? []);
  const cpuMs = Math.round(1000 * total(tasks.map(({ cpuS }) => cpuS)));
  return {
    peakBytes: tasks.length === 0 ? undefined : Math.max(...tasks.map((task) => task.peakMemoryBytes)),
    limitBytes: seen.findLast(({ job }) => job !== undefined)?.job?.limitBytes,
    // Killed before the first look: its CPU time is not known.
    cpu: cpuMs === 0 ? undefined : cpuMs / 1000,
  };
}

function total(values: Iterable<number>): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum;
}

function shortened(text: string): string {
  const shown = showPath(text);
  return shown.length <= MOST_CHARACTERS ? shown : `${shown.slice(0, MOST_CHARACTERS - 1)}…`;
}

/** Undefined if there is none. */
export function saidOf(found: readonly LastOutput[]): readonly Said[] | undefined {
  if (found.length === 0) return undefined;
  return found.map(({ stream, lines }) => ({ stream: streamText(stream), lines: lines.map(shortened) }));
}

function secondsOf(ms: number): number {
  return ms / 1000;
}
