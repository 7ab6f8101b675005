// `capture ls <url> [index]`: what is stored of an index, object by object, as its records name it. Names in the store are
// never guessed at.
import { group } from '../../cli/options/spec.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import type { IndexSet } from '../../model/index-set.ts';
import { showJson } from '../../model/path.ts';
import { readAhead } from '../../model/waiting.ts';
import { clockMs } from '../../native/clock.ts';
import { ARRAY_OPTION } from '../array-option.ts';
import { type ArrayCommand, type Line, type Tools } from '../command.ts';
import { oneIndex, readIndex } from '../one-index.ts';
import { atPlace, noIndex, nothingThere, type Place, readPlace } from '../place.ts';
import { type IndexState, STALE_AFTER_MS, statesOf } from '../state.ts';
import { survey, surveyIndex } from '../survey.ts';
import { type Listed, listedOf } from './listed.ts';
import { linesOf } from './lines.ts';

const OPTIONS = group('Ls:', {
  array: { ...ARRAY_OPTION, help: 'only these indices' },
  index: { flags: '--index <id>', kind: 'value', help: 'only this one', read: oneIndex },
  json: { flags: '--json', kind: 'flag', help: 'JSON, one index a line' },
});

export const lsCommand: ArrayCommand = {
  help: {
    about:
      'Lists what is stored of one index, or of all: its records, results, checkpoints, staged results (a death may ' +
      'have closed them) and older copies, each with its key. All of it comes from records.',
    statuses: '    0  it is listed',
    examples: ['capture ls s3://lab/run7 17', 'capture ls s3://lab/run7 --array 0-99 --json'],
  },
  options: Object.values(OPTIONS),
  read: (line) => {
    const given = readPlace(line);
    const asked = askedOf(line);
    return atPlace(given, (place, tools) => ls(place, asked, tools));
  },
};

interface Asked {
  readonly index: string | undefined;
  readonly set: IndexSet | undefined;
  readonly json: boolean;
}

/** Of each all is read that its records say. */
const INDICES_AT_ONCE = 4;

function askedOf(line: Line): Asked {
  const { values, refuse } = line;
  const index = readIndex(line, OPTIONS.index);
  const set = values.of(OPTIONS.array);
  if (index !== undefined && set !== undefined)
    refuse('one index is named, and --array as well', 'leave one of them out');
  return { index, set, json: values.has(OPTIONS.json) };
}

async function ls(place: Place, asked: Asked, { out, log, signal }: Tools): Promise<ExitStatus> {
  const states = await statesAsked(place, asked, signal);
  const read = (one: IndexState): Promise<Listed> => listedOf(place, one, signal);
  let isFirst = true;
  for await (const listed of readAhead(states, INDICES_AT_ONCE, read)) {
    const { problems, ...found } = listed;
    for (const problem of problems) log.warn(problem, { event: 'damaged', index: found.index });
    if (asked.json) await out.line(showJson({ format: 1, store: place.store.url, ...found }));
    else for (const line of linesOf(listed, isFirst)) await out.line(line);
    isFirst = false;
  }
  return EXIT.ok;
}

/** Those of which anything is stored. */
async function statesAsked(
  place: Place,
  { index, set }: Asked,
  signal: AbortSignal,
): Promise<readonly IndexState[]> {
  const found =
    index === undefined
      ? await survey(place, clockMs(), signal)
      : await surveyIndex(place, index, clockMs(), signal);
  const states = [...statesOf(found, STALE_AFTER_MS, set)].filter(({ row }) => row !== undefined);
  if (states.length > 0) return states;
  throw index === undefined ? nothingThere(place.store, place.taskName) : noIndex(place, index);
}
