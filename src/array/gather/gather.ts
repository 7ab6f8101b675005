// `capture gather <url> <dir>`: downloads the results of all indices into one directory, decompressed and checked. The
// records say which results there are. Complete files are not downloaded again, so an interrupted gathering resumes.
import type { Tools } from '../../cli/command.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { formatIndices, numberOfIndex } from '../../model/index-set.ts';
import { showPath } from '../../model/path.ts';
import { readAhead } from '../../model/waiting.ts';
import { clockMs } from '../../native/clock.ts';
import { numberText } from '../columns.ts';
import { onArray } from '../command.ts';
import { READS_AT_ONCE } from '../details.ts';
import { nothingThere, type StoredArray } from '../stored-array.ts';
import { listStates } from '../list-states.ts';
import { countsOf, type IndexState, STATES } from '../state.ts';
import { survey } from '../survey.ts';
import { Gathering } from './gathering.ts';
import { writeList } from './list.ts';
import { type GatherRequest, GATHER_OPTIONS, readGather } from './options.ts';
import { shareOf } from './share.ts';

export const gatherCommand = onArray({
  name: 'gather',
  opens: true,
  help: {
    about:
      'Brings the results of all indices into one directory, decompressed and checked. What is there already is not ' +
      'downloaded again; a different file of the same name is never replaced.',
    statuses: {
      0: 'all that was asked for is there, whole',
      1:
        'something is missing: an index that is not done, a file that differs or is damaged, a result that ' +
        '--include names',
    },
    examples: [
      'capture gather s3://lab/run7 ./results --array 0-9999',
      "capture gather s3://lab/run7 ./results --include '*.dat' --layout '{path}.{index}'",
      'capture gather s3://lab/run7 --list md5sum',
    ],
  },
  options: GATHER_OPTIONS,
  read: readGather,
  act: gather,
});

const INCOMPLETE = 1;

/** Longer lists are cut, because nobody reads them. */
const MOST_NUMBERS = 200;

async function gather(array: StoredArray, request: GatherRequest, tools: Tools): Promise<ExitStatus> {
  const found = await survey(array, clockMs(), tools.signal);
  if (found.rows.length === 0) throw nothingThere(array.store, array.taskName);
  // Running and stale indices are treated alike here.
  const states = listStates(found, Infinity, request.set);
  const undone = states.filter(({ state }) => state !== 'done');
  if (undone.length > 0) {
    const message = `${describe(undone)} of ${numberText(states.length)} are not done`;
    if (!request.incomplete) {
      tools.log.error(message, { event: 'refused', hint: whatToDo(undone) });
      return INCOMPLETE;
    }
    tools.log.warn(message);
  }
  const rows = states.flatMap(({ row }) => row ?? []);
  if (rows.length > 1 && !request.layout.hasIndex) {
    throw new CaptureError(EXIT.usage, `--layout has no {index}, and there are ${rows.length} indices`, {
      hint: "--layout '{path}.{index}', or one of them: --array 3",
    });
  }
  const shares = readAhead(rows, READS_AT_ONCE, (row) => shareOf(array, row, request, tools.signal));
  const gathering = new Gathering(rows.length, tools);
  const { list, directory } = request;
  if (list !== undefined) await writeList(gathering.told(shares), list, tools.out);
  else if (directory !== undefined) await gathering.into(shares, array, { ...request, directory });
  const { unmatched } = request.patterns;
  for (const pattern of unmatched)
    tools.log.warn(`no result matches --include '${showPath(pattern)}'`, {
      hint: 'patterns are of paths in the work directory of the task, as capture ls shows them',
    });
  const isAll = undone.length === 0 && gathering.isComplete && unmatched.length === 0;
  return isAll ? EXIT.ok : INCOMPLETE;
}

function whatToDo(undone: readonly IndexState[]): string {
  const running = undone.filter(({ state }) => state === 'running').length;
  return [
    ...(running > 0 ? ['wait for what runs (capture wait)'] : []),
    ...(running < undone.length ? [`run ${running > 0 ? 'the others' : 'them'} again (capture status)`] : []),
    'or --incomplete: gather what is stored so far',
  ].join(', ');
}

/** `12 indices (1 failed: 3; 11 missing: 40-50)` */
function describe(undone: readonly IndexState[]): string {
  const counts = countsOf(undone);
  const each = STATES.filter((state) => counts[state] > 0).map((state) => {
    const indices = undone.filter((one) => one.state === state).map(({ index }) => index);
    const numbers = indices.flatMap((index) => numberOfIndex(index) ?? []);
    const names = indices.filter((index) => numberOfIndex(index) === undefined);
    const text = [formatIndices(numbers, 'slurm'), ...names].filter((part) => part !== '').join(',');
    const shown = text.length > MOST_NUMBERS ? `${text.slice(0, MOST_NUMBERS)}...` : text;
    return `${numberText(counts[state])} ${state}: ${shown}`;
  });
  const what = undone.length === 1 ? 'index' : 'indices';
  return `${numberText(undone.length)} ${what} (${each.join('; ')})`;
}
