// `capture status <url>`: the state of each index of an array. It comes from listings. Records are read only for the
// rows of a table, and for one index in detail.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Tools } from '../../cli/command.ts';
import type { ArrayStatus, IndexStatus } from '../../model/format/json-output.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { formatIndices, type IndexFormat, numberOfIndex } from '../../model/index-set.ts';
import { showJson } from '../../model/path.ts';
import { readAhead } from '../../model/waiting.ts';
import { clockMs } from '../../native/clock.ts';
import { onArray } from '../command.ts';
import { newestRecord, READS_AT_ONCE } from '../details.ts';
import { lookAgain } from '../look-again.ts';
import { sayOthers } from '../others.ts';
import { SlurmJobs } from '../slurm-jobs.ts';
import { nothingThere, type StoredArray } from '../stored-array.ts';
import { countsOf, type IndexState, STATES, statesOf } from '../state.ts';
import { survey, type Survey } from '../survey.ts';
import { showIndex } from './one-index.ts';
import { readStatus, STATUS_OPTIONS, type StatusRequest } from './options.ts';
import { writeSuggestion } from './suggest.ts';
import { summaryOf, writeTable } from './table.ts';
import { isRequeued, storedOf, type View } from './view.ts';

export const statusCommand = onArray({
  name: 'status',
  opens: true,
  help: {
    about:
      'Shows the state of each index of an array: failed, stale (no sign of life, probably killed), ' +
      'missing, preempted, running or done. Or prints which indices to run again. Or shows one index in full.',
    statuses: {
      0: 'all are done; with --suggest: printed',
      1: 'not all are done, or a record that it read is damaged',
    },
    examples: [
      'capture status s3://lab/run7 --array 0-9999',
      'capture status s3://lab/run7 --array 0-9999 --unfinished --format lines',
      'capture status s3://lab/run7 17',
      'capture status s3://lab/run7 --suggest --format lsf',
      'capture status /shared/store/12 --task-name lmp --watch',
    ],
  },
  options: STATUS_OPTIONS,
  read: readStatus,
  act: async (array, request, tools) => ((await status(array, request, tools)) ? EXIT.ok : NOT_ALL),
});

const NOT_ALL: ExitStatus = 1;

/** Resolves to whether all selected indices are done, or were printed. */
async function status(array: StoredArray, request: StatusRequest, tools: Tools): Promise<boolean> {
  const { index, again, suggest, everyMs } = request;
  if (index !== undefined) return showIndex(array, index, request, tools);
  const jobs = new SlurmJobs(tools);
  const asked = { array, staleAfterMs: request.staleAfterMs, all: again?.unfinished === true };
  const find = (): Promise<Survey> => jobs.mark(asked, () => surveyed(array, tools));
  const look = async (): Promise<View> => viewOf(array, await find(), request);
  if (everyMs !== undefined) return watchArray(look, everyMs, tools);
  const found = await find();
  sayOthers(found, request.set, tools);
  const view = viewOf(array, found, request);
  if (suggest !== undefined) {
    await writeSuggestion(view, suggest, tools);
    return true;
  }
  if (again !== undefined) {
    const isTaken = ({ index, row }: IndexState): boolean =>
      again.unfinished && (row?.job === 'alive' || found.waiting?.has(index) === true);
    const isAgain = (one: IndexState): boolean => again.states.includes(one.state) && !isTaken(one);
    await writeAgain({ ...view, states: () => chosen(view.states(), isAgain) }, again.format, tools);
    return isAllDone(view);
  }
  const isWhole = await (request.json ? writeJson(view, tools) : writeTable(view, tools));
  return isWhole && isAllDone(view);
}

async function surveyed(array: StoredArray, { signal }: Tools): Promise<Survey> {
  const found = await survey(array, clockMs(), signal);
  if (found.rows.length === 0) throw nothingThere(array.store, array.taskName);
  return found;
}

function viewOf(array: StoredArray, found: Survey, { set, staleAfterMs, all, details }: StatusRequest): View {
  const states = (): Iterable<IndexState> => statesOf(found, staleAfterMs, set);
  const { nowMs, waiting = new Set() } = found;
  return { array, states, counts: countsOf(states()), nowMs, all, details, waiting };
}

function isAllDone({ counts }: View): boolean {
  return STATES.every((state) => state === 'done' || counts[state] === 0);
}

/** Cursor to the top left, and erase from there (ECMA-48, CUP and ED). The scrollback stays. */
const CLEAR = '\u001B[H\u001B[J';

/**
 * `--watch`: refreshes the table on a terminal; otherwise it writes a line with the counts. Resolves to true once all are
 * done, because nothing changes after that. A signal ends it earlier.
 */
export async function watchArray(look: () => Promise<View>, everyMs: number, tools: Tools): Promise<boolean> {
  const { out, signal } = tools;
  for (;;) {
    const view = await lookAgain(look);
    if (view !== undefined) {
      if (out.isTerminal) await out.write(CLEAR);
      if (out.isTerminal) await writeTable(view, tools);
      else await out.write(`${new Date(view.nowMs).toISOString()} ${summaryOf(view, tools)}\n`);
      if (isAllDone(view)) return true;
    }
    await sleep(everyMs, undefined, { signal });
  }
}

/** Prints nothing at all if there are none, for `[ -z "$again" ]`. */
async function writeAgain(view: View, format: IndexFormat, { out }: Tools): Promise<void> {
  if (format === 'lines') {
    for (const { index } of view.states()) await out.line(index);
    return;
  }
  const text = formatIndices(numbersOf(view), format);
  if (text !== '') await out.write(`${text}\n`);
}

function* chosen(
  states: Iterable<IndexState>,
  isChosen: (one: IndexState) => boolean,
): Generator<IndexState> {
  for (const one of states) if (isChosen(one)) yield one;
}

function* numbersOf(view: View): Generator<number> {
  for (const { index } of view.states()) {
    const number = numberOfIndex(index);
    if (number === undefined)
      throw new CaptureError(EXIT.usage, `index ${index} is no number: no scheduler takes it in a set`, {
        hint: '--format lines, or leave it out with --array',
      });
    yield number;
  }
}

/**
 * `--json`: one object, with each index on its own line, written as a stream. Resolves to whether all records that were
 * read are whole.
 */
async function writeJson(view: View, { out, log, signal }: Tools): Promise<boolean> {
  let isWhole = true;
  const { array, counts, nowMs } = view;
  const now = new Date(nowMs).toISOString();
  const head: Omit<ArrayStatus, 'indices'> = {
    format: 1,
    store: array.store.url,
    task: array.taskName,
    now,
    counts,
  };
  await out.write(`${showJson(head).slice(0, -1)},"indices":[`);
  const read = async (one: IndexState): Promise<string> => {
    const found =
      view.details && one.row !== undefined ? await newestRecord(array, one.row, signal) : undefined;
    for (const problem of found?.problems ?? []) log.warn(problem, { event: 'damaged', index: one.index });
    isWhole &&= (found?.problems ?? []).length === 0;
    const requeued = isRequeued(one, view) || undefined;
    const shown: IndexStatus = {
      ...jsonOf(one),
      requeued,
      ...(found === undefined ? {} : storedOf(found, one.row)),
    };
    return showJson(shown);
  };
  let isFirst = true;
  for await (const line of readAhead(view.states(), READS_AT_ONCE, read)) {
    await out.write(`${isFirst ? '' : ','}\n${line}`);
    isFirst = false;
  }
  await out.write('\n]}\n');
  return isWhole;
}

function jsonOf({ index, state, row }: IndexState): IndexStatus {
  if (row === undefined) return { index, state };
  const { attempts, newest, claimedMs, seenMs, checkpointMs } = row;
  return {
    index,
    state,
    status: newest.status,
    attempts,
    attempt: newest.attempt,
    startedAt: isoOf(claimedMs),
    seenAt: isoOf(seenMs),
    checkpointAt: isoOf(checkpointMs),
    record: newest.key,
  };
}

function isoOf(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}
