// `capture rm <url>`: deletes all that is stored of chosen indices, so that they begin from nothing. Asks before, and
// touches none that runs.
import readline from 'node:readline/promises';
import { durationMs } from '../../cli/options/readers.ts';
import { group } from '../../cli/options/spec.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { hasIndex, type IndexSet, numberOfIndex } from '../../model/index-set.ts';
import { showPath } from '../../model/path.ts';
import { formatBytes, plural } from '../../model/units.ts';
import { clockMs } from '../../native/clock.ts';
import { ARRAY_OPTION } from '../array-option.ts';
import { numberText } from '../columns.ts';
import { type ArrayCommand, type Line, refuseOperands, type Tools } from '../command.ts';
import { oneIndex } from '../one-index.ts';
import { atPlace, nothingThere, type Place, readPlace } from '../place.ts';
import { STALE_AFTER, stateOf } from '../state.ts';
import { type IndexRow, survey } from '../survey.ts';
import { isRemoval, Removal } from './removal.ts';

const OPTIONS = group('Remove:', {
  index: { flags: '--index <id>', kind: 'value', help: 'this index', read: oneIndex },
  array: { ...ARRAY_OPTION, help: 'these indices' },
  stale: {
    flags: '--stale',
    kind: 'flag',
    help: 'also those without a sign of life; if one lives after all, it is fenced and exits 76',
  },
  'stale-after': {
    flags: '--stale-after <duration>',
    kind: 'value',
    help: 'without a sign of life for so long, an attempt was probably killed',
    read: durationMs(1000),
    default: STALE_AFTER,
  },
  yes: { flags: '--yes', kind: 'flag', help: 'do not ask' },
  'dry-run': { flags: '--dry-run', kind: 'flag', help: 'say what would be deleted, and delete nothing' },
});

export const rmCommand: ArrayCommand = {
  help: {
    required: '--index <id> | --array <set>',
    about:
      'Deletes all that is stored of the chosen indices: results, checkpoints, output, records. The next run of one ' +
      'begins from nothing. An index that runs is left alone.',
    statuses: `    0  nothing of them is stored any more
    1  something stays: an index runs, or was started again`,
    examples: [
      'capture rm s3://lab/run7 --index 3',
      'capture rm s3://lab/run7 --array 3-7,12 --yes',
      'capture rm s3://lab/run7 --array 0-9999 --dry-run',
    ],
  },
  options: Object.values(OPTIONS),
  read: (line) => {
    const given = readPlace(line);
    refuseOperands(line);
    const asked = askedOf(line);
    return atPlace(given, (place, tools) => rm(place, asked, tools));
  },
};

const STAYS: ExitStatus = 1;

interface Asked {
  readonly index: string | undefined;
  readonly set: IndexSet | undefined;
  readonly staleAfterMs: number;
  readonly stale: boolean;
  readonly yes: boolean;
  readonly dryRun: boolean;
}

function askedOf({ values, refuse, title }: Line): Asked {
  const asked: Asked = {
    index: values.of(OPTIONS.index),
    set: values.of(OPTIONS.array),
    staleAfterMs: values.of(OPTIONS['stale-after']),
    stale: values.has(OPTIONS.stale),
    yes: values.has(OPTIONS.yes),
    dryRun: values.has(OPTIONS['dry-run']),
  };
  if (values.has(OPTIONS.index) === values.has(OPTIONS.array))
    refuse('which indices? one with --index, or several with --array', `${title} <url> --index 3`);
  return asked;
}

async function rm(place: Place, asked: Asked, tools: Tools): Promise<ExitStatus> {
  const { log, out, signal } = tools;
  const { rows, nowMs } = await survey(place, clockMs(), signal);
  const wanted = rows.filter(({ index }) => isChosen(index, asked));
  if (wanted.length === 0) throw nothingThere(place.store, place.taskName);
  const chosen: IndexRow[] = [];
  for (const row of wanted) {
    const state = stateOf(row, nowMs, asked.staleAfterMs);
    const isEnded = state !== 'running' && (state !== 'stale' || asked.stale);
    const hint = state === 'stale' ? '--stale, if it was killed' : 'end it first';
    if (isEnded || (await isRemoval(place, row, signal))) chosen.push(row);
    else log.warn(`index ${row.index} is ${state}, and left alone`, { index: row.index, hint });
  }
  if (chosen.length === 0) return STAYS;
  if (!asked.dryRun && !asked.yes) await confirm(place, chosen.length, signal);
  const removal = new Removal(place, asked.dryRun, signal);
  await removal.remove(chosen);
  for (const { index, why } of removal.stays) log.warn(`index ${index}: something stays: ${why}`, { index });
  const what = `${plural(removal.objects, 'object')} (${formatBytes(removal.bytes)}) of ${indicesText(chosen.length)}`;
  await out.write(`${asked.dryRun ? 'would delete' : 'deleted'} ${what}, and the records\n`);
  return removal.stays.length === 0 && chosen.length === wanted.length ? EXIT.ok : STAYS;
}

function isChosen(index: string, { index: one, set }: Asked): boolean {
  if (set === undefined) return index === one;
  const number = numberOfIndex(index);
  return number !== undefined && hasIndex(set, number);
}

function indicesText(count: number): string {
  return count === 1 ? '1 index' : `${numberText(count)} indices`;
}

/** Throws status 64 if nobody can be asked, and 1 if the answer is no. */
async function confirm({ store, taskName }: Place, count: number, signal: AbortSignal): Promise<void> {
  if (!process.stdin.isTTY) {
    throw new CaptureError(EXIT.usage, 'nobody is there to be asked: stdin is no terminal', {
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
