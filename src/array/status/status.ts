// `capture status <url>`: what became of each index of an array. All of it comes from listings; only for the rows of a
// table that a person reads, and for one index in detail, records are read as well.
import { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { formatIndices, numberOfIndex } from '../../model/index-set.ts';
import { clockMs } from '../../native/clock.ts';
import type { ArrayCommand, CarryOut, Line, Tools } from '../command.ts';
import { sayOthers } from '../others.ts';
import { atPlace, nothingThere, type Place } from '../place.ts';
import { countsOf, type IndexState, type State, STATES, statesOf } from '../state.ts';
import { survey, type Survey } from '../survey.ts';
import { writeJson } from './json.ts';
import { showIndex } from './one-index.ts';
import { type Asked, readStatus, STATUS_OPTIONS } from './options.ts';
import { writeSuggestion } from './suggest.ts';
import { writeTable } from './table.ts';
import type { View } from './view.ts';
import { watchArray } from './watch.ts';

export const statusCommand: ArrayCommand = {
  help: {
    about:
      'Says of each index of an array what became of it: failed, stale (no sign of life, probably killed), ' +
      'missing, preempted, running, done. Or prints which to run again. Or tells all of one index.',
    statuses: `    0  all are done; with --suggest: printed
    1  not all are done, or a record that it read is damaged`,
    examples: [
      'capture status s3://lab/run7 --array 0-9999',
      'capture status s3://lab/run7 --array 0-9999 --missing --failed --stale --format lines',
      'capture status s3://lab/run7 17',
      'capture status s3://lab/run7 --suggest --format lsf',
      'capture status /shared/store/12 --task-name lmp --watch',
    ],
  },
  options: STATUS_OPTIONS,
  read: (line) => carryOutOf(line),
};

const NOT_ALL: ExitStatus = 1;

function carryOutOf(line: Line): CarryOut {
  const read = readStatus(line);
  return atPlace(read?.given, async (place, tools) => {
    if (read === undefined) return EXIT.usage;
    return (await status(place, read.asked, tools)) ? EXIT.ok : NOT_ALL;
  });
}

/** Resolves to whether all that was asked about is done, or was printed. */
async function status(place: Place, asked: Asked, tools: Tools): Promise<boolean> {
  const { index, again, suggest, everyMs } = asked;
  if (index !== undefined) return showIndex(place, index, asked, tools);
  const look = async (): Promise<View> => viewOf(place, await surveyed(place, tools), asked);
  if (everyMs !== undefined) return watchArray(look, everyMs, tools);
  const found = await surveyed(place, tools);
  sayOthers(found, asked.set, tools);
  const view = viewOf(place, found, asked);
  if (suggest !== undefined) {
    await writeSuggestion(view, suggest, tools);
    return true;
  }
  if (again !== undefined) {
    await writeAgain(view, again, tools);
    return isAllDone(view);
  }
  const isWhole = await (asked.json ? writeJson(view, tools) : writeTable(view, tools));
  return isWhole && isAllDone(view);
}

async function surveyed(place: Place, { signal }: Tools): Promise<Survey> {
  const found = await survey(place, clockMs(), signal);
  if (found.rows.length === 0) throw nothingThere(place.store, place.taskName);
  return found;
}

function viewOf(place: Place, found: Survey, { set, staleAfterMs, all, details }: Asked): View {
  const states = (): Iterable<IndexState> => statesOf(found, staleAfterMs, set);
  return { place, states, counts: countsOf(states()), nowMs: found.nowMs, all, details };
}

function isAllDone({ counts }: View): boolean {
  return STATES.every((state) => state === 'done' || counts[state] === 0);
}

/** Nothing at all if there are none: `[ -z "$again" ]`. */
async function writeAgain(
  view: View,
  { states, format }: NonNullable<Asked['again']>,
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
