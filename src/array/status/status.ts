// `capture status <url>`: what became of each index of an array. All of it comes from listings; only for the rows of a
// table that a person reads, and for one index in detail, records are read as well.
import type { Tools } from '../../cli/command.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { formatIndices, numberOfIndex } from '../../model/index-set.ts';
import { clockMs } from '../../native/clock.ts';
import { onArray } from '../command.ts';
import { sayOthers } from '../others.ts';
import { nothingThere, type StoredArray } from '../stored-array.ts';
import { countsOf, type IndexState, type State, STATES, statesOf } from '../state.ts';
import { survey, type Survey } from '../survey.ts';
import { writeJson } from './json.ts';
import { showIndex } from './one-index.ts';
import { readStatus, STATUS_OPTIONS, type StatusRequest } from './options.ts';
import { writeSuggestion } from './suggest.ts';
import { writeTable } from './table.ts';
import type { View } from './view.ts';
import { watchArray } from './watch.ts';

export const statusCommand = onArray({
  name: 'status',
  help: {
    about:
      'Says of each index of an array what became of it: failed, stale (no sign of life, probably killed), ' +
      'missing, preempted, running, done. Or prints which to run again. Or tells all of one index.',
    statuses: {
      0: 'all are done; with --suggest: printed',
      1: 'not all are done, or a record that it read is damaged',
    },
    examples: [
      'capture status s3://lab/run7 --array 0-9999',
      'capture status s3://lab/run7 --array 0-9999 --missing --failed --stale --format lines',
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

/** Resolves to whether all that was asked about is done, or was printed. */
async function status(array: StoredArray, request: StatusRequest, tools: Tools): Promise<boolean> {
  const { index, again, suggest, everyMs } = request;
  if (index !== undefined) return showIndex(array, index, request, tools);
  const look = async (): Promise<View> => viewOf(array, await surveyed(array, tools), request);
  if (everyMs !== undefined) return watchArray(look, everyMs, tools);
  const found = await surveyed(array, tools);
  sayOthers(found, request.set, tools);
  const view = viewOf(array, found, request);
  if (suggest !== undefined) {
    await writeSuggestion(view, suggest, tools);
    return true;
  }
  if (again !== undefined) {
    await writeAgain(view, again, tools);
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
  return { array, states, counts: countsOf(states()), nowMs: found.nowMs, all, details };
}

function isAllDone({ counts }: View): boolean {
  return STATES.every((state) => state === 'done' || counts[state] === 0);
}

/** Nothing at all if there are none: `[ -z "$again" ]`. */
async function writeAgain(
  view: View,
  { states, format }: NonNullable<StatusRequest['again']>,
  { out }: Tools,
): Promise<void> {
  if (format === 'lines') {
    for (const { index, state } of view.states()) if (states.includes(state)) await out.line(index);
    return;
  }
  const text = formatIndices(numbersOf(view, states), format);
  if (text !== '') await out.write(`${text}\n`);
}

function* numbersOf(view: View, states: readonly State[]): Generator<number> {
  for (const { index, state } of view.states()) {
    if (!states.includes(state)) continue;
    const number = numberOfIndex(index);
    if (number === undefined)
      throw new CaptureError(EXIT.usage, `index ${index} is no number: no scheduler takes it in a set`, {
        hint: '--format lines, or leave it out with --array',
      });
    yield number;
  }
}
