// `capture rm <url>`: deletes everything that is stored of chosen indices, so that they start from scratch. It asks for
// confirmation, and skips running indices.
import readline from 'node:readline/promises';
import type { Tools } from '../../cli/command.ts';
import { group } from '../../cli/options/spec.ts';
import type { ValuesOf } from '../../cli/options/values.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { hasIndex, numberOfIndex } from '../../model/index-set.ts';
import { showPath } from '../../model/path.ts';
import { formatBytes, plural } from '../../model/units.ts';
import { clockMs } from '../../native/clock.ts';
import { numberText } from '../columns.ts';
import { onArray } from '../command.ts';
import { ARRAY_OPTION, INDEX_OPTION, STALE_OPTION } from '../options.ts';
import { nothingThere, type StoredArray } from '../stored-array.ts';
import { stateOf } from '../state.ts';
import { SlurmJobs } from '../slurm-jobs.ts';
import { type IndexRow, survey, type Survey } from '../survey.ts';
import { isRemoval, Removal } from './removal.ts';

const OPTIONS = group('Remove:', {
  index: { ...INDEX_OPTION, help: 'this index' },
  set: { ...ARRAY_OPTION, help: 'these indices' },
  stale: {
    flags: '--stale',
    help: 'also those without a sign of life; if one lives after all, it is fenced and exits 76',
  },
  staleAfterMs: {
    ...STALE_OPTION,
    help: 'without a sign of life for so long, an attempt was probably killed',
  },
  yes: { flags: '--yes', help: 'do not ask' },
  dryRun: { flags: '--dry-run', help: 'say what would be deleted, and delete nothing' },
});

export const rmCommand = onArray({
  name: 'rm',
  help: {
    usage: '<url> --index <id> | --array <set> [options]',
    about:
      'Deletes all that is stored of the chosen indices: results, checkpoints, output, records. The next run of one ' +
      'begins from nothing. An index that runs is left alone.',
    statuses: {
      0: 'nothing of them is stored any more',
      1: 'something stays: an index runs, or was started again',
    },
    examples: [
      'capture rm s3://lab/run7 --index 3',
      'capture rm s3://lab/run7 --array 3-7,12 --yes',
      'capture rm s3://lab/run7 --array 0-9999 --dry-run',
    ],
  },
  options: OPTIONS,
  read: (options, { values, title }) => {
    if (values.has(OPTIONS.index) === values.has(OPTIONS.set))
      values.refuse('which indices? one with --index, or several with --array', `${title} <url> --index 3`);
    return options;
  },
  act: rm,
});

const STAYS: ExitStatus = 1;

type RmOptions = ValuesOf<typeof OPTIONS>;

async function rm(array: StoredArray, options: RmOptions, tools: Tools): Promise<ExitStatus> {
  const { log, out, signal } = tools;
  const { staleAfterMs } = options;
  const look = (): Promise<Survey> => survey(array, clockMs(), signal);
  const { rows, nowMs } = await new SlurmJobs(tools).mark({ array, staleAfterMs, all: false }, look);
  const wanted = rows.filter(({ index }) => isChosen(index, options));
  if (wanted.length === 0) throw nothingThere(array.store, array.taskName);
  const chosen: IndexRow[] = [];
  for (const row of wanted) {
    const state = stateOf(row, nowMs, staleAfterMs);
    const isEnded = state !== 'running' && (state !== 'stale' || options.stale);
    const hint = state === 'stale' ? '--stale, if it was killed' : 'end it first';
    if (isEnded || (await isRemoval(array, row, signal))) chosen.push(row);
    else log.warn(`index ${row.index} is ${state}, and left alone`, { index: row.index, hint });
  }
  if (chosen.length === 0) return STAYS;
  if (!options.dryRun && !options.yes) await confirm(array, chosen.length, signal);
  const removal = new Removal(array, options.dryRun, signal);
  await removal.remove(chosen);
  for (const { index, why } of removal.stays) log.warn(`index ${index}: something stays: ${why}`, { index });
  const what = `${plural(removal.objects, 'object')} (${formatBytes(removal.bytes)}) of ${indicesText(chosen.length)}`;
  await out.write(`${options.dryRun ? 'would delete' : 'deleted'} ${what}, and the records\n`);
  return removal.stays.length === 0 && chosen.length === wanted.length ? EXIT.ok : STAYS;
}

function isChosen(index: string, { index: one, set }: RmOptions): boolean {
  if (set === undefined) return index === one;
  const number = numberOfIndex(index);
  return number !== undefined && hasIndex(set, number);
}

function indicesText(count: number): string {
  return count === 1 ? '1 index' : `${numberText(count)} indices`;
}

/** Throws status 64 if there is no terminal to ask on, and 1 if the answer is no. */
async function confirm({ store, taskName }: StoredArray, count: number, signal: AbortSignal): Promise<void> {
  if (!process.stdin.isTTY) {
    throw new CaptureError(EXIT.usage, 'cannot ask: stdin is not a terminal', {
      hint: '--yes, or --dry-run first',
    });
  }
  const asking = readline.createInterface({ input: process.stdin, output: process.stderr });
  try {
    const question = `delete all that is stored of ${indicesText(count)} of ${taskName} in ${store.url}? [y/N] `;
    const answer = await asking.question(showPath(question), { signal });
    if (!/^y(es)?$/i.test(answer.trim())) throw new CaptureError(STAYS, 'nothing is deleted');
  } finally {
    asking.close();
  }
}
