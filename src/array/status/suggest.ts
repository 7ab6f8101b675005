// `capture status <url> --suggest`: the memory and time to request from the scheduler, from what the array has used. It
// reads the records of all indices.
import { CaptureError } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import type { CaptureRecord } from '../../model/format/records.ts';
import { ranOutOfMemory } from '../../model/format/out-of-memory.ts';
import type { IndexFormat } from '../../model/index-set.ts';
import { formatBytes, formatMs, plural } from '../../model/units.ts';
import { readAhead } from '../../model/waiting.ts';
import type { Tools } from '../../cli/command.ts';
import { detailsOf, newestRecord, READS_AT_ONCE } from '../details.ts';
import type { StoredArray } from '../stored-array.ts';
import type { IndexState } from '../state.ts';
import type { View } from './view.ts';

const MIB = 2 ** 20;
/** Runs differ, so this margin is added to the maximum. */
const MARGIN = 1.2;
const MEMORY_STEP_BYTES = 128 * MIB;
const TIME_STEP_MS = 5 * 60_000;
/** A failed job that had used this share of its limit may have needed more. */
const NEAR_LIMIT = 0.9;
/** A warning names so many indices. */
const NAMED = 5;

/** What one index has used, according to its records. */
interface IndexUse {
  readonly index: string;
  /**
   * The maximum of any attempt: of the task and capture together, or of the job's cgroup if that was more. If the kernel
   * has killed a process for lack of memory, at least the limit.
   */
  readonly memoryBytes: number | undefined;
  /** The total of all its attempts. */
  readonly lastedMs: number | undefined;
  readonly isDone: boolean;
  /** It failed, or vanished, when it had used nearly all memory that its cgroup allows. */
  readonly hitLimit: boolean;
  /** It is not done, and the kernel has killed a process of an attempt for lack of memory. */
  readonly ranOut: boolean;
}

interface Maximum {
  readonly index: string;
  readonly value: number;
}

/** Prints the options for `format`, and logs at info where they come from. */
export async function writeSuggestion(
  view: View,
  format: IndexFormat,
  { out, log, signal }: Tools,
): Promise<void> {
  let [memory, time, undone]: (Maximum | undefined)[] = [];
  let seen = 0;
  const short: string[] = [];
  const killed: string[] = [];
  const read = (one: IndexState): Promise<IndexUse> => usedBy(view.array, one, { log, signal });
  for await (const used of readAhead(view.states(), READS_AT_ONCE, read)) {
    const { index, memoryBytes, lastedMs, isDone, hitLimit, ranOut } = used;
    memory = moreOf(memory, index, memoryBytes);
    if (isDone) time = moreOf(time, index, lastedMs);
    else undone = moreOf(undone, index, lastedMs);
    if (memoryBytes !== undefined || (isDone && lastedMs !== undefined)) seen += 1;
    if (ranOut) killed.push(index);
    else if (hitLimit) short.push(index);
  }
  if (memory === undefined && time === undefined) {
    throw new CaptureError(EXIT.inputMissing, 'no record says yet what a task has used', {
      hint: 'ask again when one is done; capture watch does not see its task',
    });
  }
  const from = [
    ...(memory === undefined
      ? []
      : [`memory of the task and capture ${formatBytes(memory.value)} (index ${memory.index})`]),
    ...(time === undefined ? [] : [`time ${formatMs(time.value)} (index ${time.index})`]),
  ];
  log.info(`highest of ${plural(seen, 'run')}: ${from.join(', ')}; printed with 20 % more`);
  if (killed.length > 0)
    log.warn(`not done, and killed for lack of memory: ${firstOf(killed)}`, {
      hint: 'nobody can know how much they need: if 20 % more is too little, double it',
    });
  if (short.length > 0)
    log.warn(
      `${short.length === 1 ? '1 index' : `${short.length} indices`} may need more memory than was seen: ${firstOf(short)}`,
      {
        hint: 'it ended with its job at 90 % of the limit or more',
      },
    );
  if (time !== undefined && undone !== undefined && undone.value > time.value)
    log.warn(`index ${undone.index} is not done, and has taken longer already: ${formatMs(undone.value)}`, {
      hint: 'ask for more time, unless it hangs or its job resumes',
    });
  await out.write(`${suggestionText({ memoryBytes: memory?.value, timeMs: time?.value }, format)}\n`);
}

function firstOf(indices: readonly string[]): string {
  const more = indices.length > NAMED ? `, and ${indices.length - NAMED} more` : '';
  return `${indices.slice(0, NAMED).join(', ')}${more}`;
}

function moreOf(most: Maximum | undefined, index: string, value: number | undefined): Maximum | undefined {
  return value === undefined || (most !== undefined && most.value >= value) ? most : { index, value };
}

/** Costs one request if the index has one attempt. Otherwise it costs one for each attempt, and a listing. */
async function usedBy(
  array: StoredArray,
  { index, state, row }: IndexState,
  { log, signal }: Pick<Tools, 'log' | 'signal'>,
): Promise<IndexUse> {
  if (row === undefined)
    return {
      index,
      memoryBytes: undefined,
      lastedMs: undefined,
      isDone: false,
      hitLimit: false,
      ranOut: false,
    };
  const { problems, records } = await recordsOf(array, row, signal);
  for (const problem of problems) log.warn(problem, { event: 'damaged', index });
  const peaks = records.flatMap((record) => memoryOf(record) ?? []);
  const lastedMs = records.reduce(
    (sum, { startedAt, at }) => sum + Date.parse(at) - Date.parse(startedAt),
    0,
  );
  const last = records.at(-1)?.resources?.job;
  return {
    index,
    memoryBytes: peaks.length === 0 ? undefined : Math.max(...peaks),
    lastedMs: records.length > 0 ? Math.max(0, lastedMs) : undefined,
    isDone: state === 'done',
    hitLimit:
      (state === 'failed' || state === 'stale') &&
      last !== undefined &&
      last.peakMemoryBytes >= last.limitBytes * NEAR_LIMIT,
    ranOut: state !== 'done' && records.some(({ end }) => ranOutOfMemory(end ?? {})),
  };
}

async function recordsOf(
  array: StoredArray,
  row: NonNullable<IndexState['row']>,
  signal: AbortSignal,
): Promise<{ readonly records: readonly CaptureRecord[]; readonly problems: readonly string[] }> {
  if (row.attempts > 1) {
    const { attempts, problems } = await detailsOf(array, row, signal);
    return { records: attempts.map(({ record }) => record), problems };
  }
  const { newest, problems } = await newestRecord(array, row, signal);
  return { records: newest === undefined ? [] : [newest.record], problems };
}

/** Undefined if the task was not measured: then the cgroup may contain only capture. */
function memoryOf({ resources, end = { status: 0 } }: CaptureRecord): number | undefined {
  if (resources?.task === undefined) return undefined;
  const { task, capture, job } = resources;
  const least = ranOutOfMemory(end) ? (end.outOfMemory?.limitBytes ?? 0) : 0;
  return Math.max(task.peakMemoryBytes + capture.peakMemoryBytes, job?.peakMemoryBytes ?? 0, least);
}

/** The options for these maxima: 20 % more, in steps of 128 MiB and 5 min. `--mem=4608M --time=01:30:00`. */
export function suggestionText(
  most: { readonly memoryBytes: number | undefined; readonly timeMs: number | undefined },
  format: IndexFormat,
): string {
  const mib = rounded(most.memoryBytes, MEMORY_STEP_BYTES, MIB);
  const minutes = rounded(most.timeMs, TIME_STEP_MS, 60_000);
  const clock = minutes === undefined ? undefined : `${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
  const texts = (memory: string, time: string): string[] => [
    ...(mib === undefined ? [] : [memory]),
    ...(minutes === undefined ? [] : [time]),
  ];
  switch (format) {
    case 'slurm':
      return texts(`--mem=${mib}M`, `--time=${clock}:00`).join(' ');
    case 'lsf':
      return texts(`-M ${mib}MB`, `-W ${clock}`).join(' ');
    case 'torque':
      return `-l ${texts(`mem=${mib}mb`, `walltime=${clock}:00`).join(',')}`;
    case 'lines':
      return texts(`memory ${mib} MiB`, `time ${minutes} min`).join('\n');
  }
}

/** With the margin, rounded up to whole steps; in units of `unit`. */
function rounded(most: number | undefined, step: number, unit: number): number | undefined {
  return most === undefined ? undefined : (Math.max(1, Math.ceil((most * MARGIN) / step)) * step) / unit;
}

const two = (number: number): string => String(number).padStart(2, '0');
