// `capture prune <url>`: deletes what an array no longer needs, even while tasks run. It touches only ended indices,
// and of those only objects whose metadata name the index. It costs one listing, and two requests for each deleted
// object.
import type { Tools } from '../../cli/command.ts';
import { count } from '../../cli/options/readers.ts';
import { group } from '../../cli/options/spec.ts';
import type { ValuesOf } from '../../cli/options/values.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { isLast } from '../../model/format/records.ts';
import { hasIndex, type IndexSet, numberOfIndex } from '../../model/index-set.ts';
import { formatBytes, plural } from '../../model/units.ts';
import { clockMs } from '../../native/clock.ts';
import { numberText } from '../columns.ts';
import { onArray } from '../command.ts';
import { ARRAY_OPTION } from '../options.ts';
import { nothingThere, type StoredArray } from '../stored-array.ts';
import { survey, type IndexRow } from '../survey.ts';
import { Pruning } from './pruning.ts';
import { type Kind, KINDS } from '../shape.ts';

const OPTIONS = group('Prune:', {
  set: { ...ARRAY_OPTION, help: 'only of these indices' },
  checkpoints: {
    flags: '--checkpoints',
    help: 'checkpoints of indices that are done (the default)',
  },
  keep: {
    flags: '--keep <n>',
    help: 'with --checkpoints: keep the newest n sets of each index, and drop older ones of failed and preempted ones',
    read: count(1, 10_000),
    otherwise: 'none of those that are done, all of the others',
  },
  partials: {
    flags: '--partials',
    help: 'staged results, which a dying process may have closed (.partial-<attempt>)',
  },
  older: { flags: '--older', help: 'older copies of results that were replaced (.~<n>~)' },
  uploads: { flags: '--uploads', help: 'uploads that were given up' },
  dryRun: { flags: '--dry-run', help: 'say what would be deleted, and delete nothing' },
  json: { flags: '--json', help: 'the totals as JSON' },
});

interface PruneRequest extends Omit<ValuesOf<typeof OPTIONS>, Kind> {
  readonly kinds: ReadonlySet<Kind>;
}

export const pruneCommand = onArray({
  name: 'prune',
  help: {
    about:
      'Deletes what an array no longer needs: without an option, the checkpoints of the indices that are done. ' +
      'Indices that run, or whose end is not recorded, are left alone; results are never deleted.',
    statuses: {
      0: 'what was selected is deleted',
      1: 'something stays: an index was started again, or a record of it cannot be read',
    },
    examples: [
      'capture prune s3://lab/run7 --dry-run',
      'capture prune s3://lab/run7',
      'capture prune s3://lab/run7 --checkpoints --keep 1 --partials --older --uploads',
    ],
  },
  options: OPTIONS,
  read: (options, { values }): PruneRequest => {
    const chosen = KINDS.filter((kind) => options[kind]);
    const kinds = new Set<Kind>(chosen.length === 0 && !options.uploads ? ['checkpoints'] : chosen);
    if (options.keep !== undefined && !kinds.has('checkpoints'))
      values.refuse(
        '--keep says how many checkpoints stay, and none are to be deleted',
        '--checkpoints --keep 1',
      );
    return { ...options, kinds };
  },
  act: prune,
});

const STAYS: ExitStatus = 1;

async function prune(
  array: StoredArray,
  request: PruneRequest,
  { out, log, signal }: Tools,
): Promise<ExitStatus> {
  const { set, kinds, keep, uploads, dryRun } = request;
  const { rows } = await survey(array, clockMs(), signal);
  if (rows.length === 0) throw nothingThere(array.store, array.taskName);
  const wanted = rows.filter(({ index }) => isOf(set, index));
  const ended = new Map<string, IndexRow>();
  for (const row of wanted) if (isLast(row.newest.kind)) ended.set(row.index, row);
  const alone = wanted.length - ended.size;
  if (alone > 0) log.info(`${describe(alone)} left alone`);
  const pruning = new Pruning(array, ended, { kinds, keep, dryRun }, signal);
  await pruning.objects();
  if (uploads) await pruning.uploads();
  for (const { index, why } of pruning.stays)
    log.warn(`index ${index}: nothing is deleted: ${why}`, { index });
  if (!pruning.sawUploads)
    log.warn('unfinished uploads stay: the server, or these credentials, do not allow listing them', {
      hint: 'a lifecycle rule that aborts incomplete multipart uploads',
    });
  const { totals } = pruning;
  if (request.json) await out.write(`${JSON.stringify({ format: 1, dryRun, ...totals })}\n`);
  else await out.write(`${textOf(pruning, request)}\n`);
  return pruning.stays.length === 0 && pruning.sawUploads ? EXIT.ok : STAYS;
}

function isOf(set: IndexSet | undefined, index: string): boolean {
  const number = numberOfIndex(index);
  return set === undefined || (number !== undefined && hasIndex(set, number));
}

function describe(indices: number): string {
  return indices === 1
    ? '1 index has not ended, and is'
    : `${numberText(indices)} indices have not ended, and are`;
}

const WORDS: Readonly<Record<Kind, (objects: number) => string>> = {
  checkpoints: (objects) => `${plural(objects, 'object')} of checkpoints`,
  partials: (objects) => plural(objects, 'staged result'),
  older: (objects) => (objects === 1 ? '1 older copy' : `${objects} older copies`),
};

function textOf({ totals }: Pruning, { kinds, uploads, dryRun }: PruneRequest): string {
  const parts = KINDS.filter((kind) => kinds.has(kind)).map((kind) => {
    const { objects, bytes } = totals[kind];
    return `${WORDS[kind](objects)} (${formatBytes(bytes)})`;
  });
  const all = [...parts, ...(uploads ? [plural(totals.uploads, 'upload')] : [])];
  return `${dryRun ? 'would delete' : 'deleted'} ${all.join(', ')}`;
}
