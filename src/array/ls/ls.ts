// `capture ls <url> [index]`: lists the stored objects of an index by its records. It never guesses from names in the
// store.
import type { Tools } from '../../cli/command.ts';
import { group } from '../../cli/options/spec.ts';
import type { ValuesOf } from '../../cli/options/values.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { showJson } from '../../model/path.ts';
import { readAhead } from '../../model/waiting.ts';
import { clockMs } from '../../native/clock.ts';
import { onArray } from '../command.ts';
import { ARRAY_OPTION, INDEX_OPTION, readIndex } from '../options.ts';
import { noIndex, nothingThere, type StoredArray } from '../stored-array.ts';
import { type IndexState, STALE_AFTER_MS, storedStates } from '../state.ts';
import { survey, surveyIndex } from '../survey.ts';
import { type Listed, listedOf } from './listed.ts';
import { linesOf } from './lines.ts';

const OPTIONS = group('Ls:', {
  set: { ...ARRAY_OPTION, help: 'only these indices' },
  index: { ...INDEX_OPTION, help: 'only this one' },
  json: { flags: '--json', help: 'JSON, one index a line' },
});

type LsOptions = ValuesOf<typeof OPTIONS>;

export const lsCommand = onArray({
  name: 'ls',
  opens: true,
  help: {
    about:
      'Lists what is stored of one index, or of all: its records, results, checkpoints, staged results (a dying process may ' +
      'have closed them) and older copies, each with its key. All of it comes from records.',
    statuses: { 0: 'it is listed' },
    examples: ['capture ls s3://lab/run7 17', 'capture ls s3://lab/run7 --array 0-99 --json'],
  },
  options: OPTIONS,
  read: (options, line): LsOptions => {
    const index = readIndex(line) ?? options.index;
    if (index !== undefined && options.set !== undefined)
      line.values.refuse('one index is named, and --array as well', 'leave one of them out');
    return { ...options, index };
  },
  act: ls,
});

/** Few, because all data of an index's records is read into memory. */
const INDICES_AT_ONCE = 4;

async function ls(array: StoredArray, options: LsOptions, { out, log, signal }: Tools): Promise<ExitStatus> {
  const states = await statesAsked(array, options, signal);
  const read = (one: IndexState): Promise<Listed> => listedOf(array, one, signal);
  let isFirst = true;
  for await (const listed of readAhead(states, INDICES_AT_ONCE, read)) {
    const { problems, ...found } = listed;
    for (const problem of problems) log.warn(problem, { event: 'damaged', index: found.index });
    if (options.json) await out.line(showJson({ format: 1, store: array.store.url, ...found }));
    else for (const line of linesOf(listed, isFirst)) await out.line(line);
    isFirst = false;
  }
  return EXIT.ok;
}

/** The indices that have anything in the store. */
async function statesAsked(
  array: StoredArray,
  { index, set }: LsOptions,
  signal: AbortSignal,
): Promise<readonly IndexState[]> {
  const found =
    index === undefined
      ? await survey(array, clockMs(), signal)
      : await surveyIndex(array, index, clockMs(), signal);
  const states = storedStates(found, STALE_AFTER_MS, set);
  if (states.length > 0) return states;
  throw index === undefined ? nothingThere(array.store, array.taskName) : noIndex(array, index);
}
