// The command line of `capture status`: what is to be shown of the array, and how.
import { choice, durationMs } from '../../cli/options/readers.ts';
import { group } from '../../cli/options/spec.ts';
import { INDEX_FORMATS, type IndexFormat, type IndexSet } from '../../model/index-set.ts';
import { ARRAY_OPTION, STALE_OPTION } from '../array-option.ts';
import type { Line } from '../command.ts';
import { oneIndex, readIndex } from '../one-index.ts';
import { type GivenPlace, readPlace } from '../place.ts';
import type { State } from '../state.ts';

const WHICH = group('Which indices:', {
  array: {
    ...ARRAY_OPTION,
    help: 'those that there should be, as the scheduler has them: 0-9999, 3,17-19,40-60:2',
  },
  index: { flags: '--index <id>', kind: 'value', help: 'one index in detail', read: oneIndex },
  'stale-after': STALE_OPTION,
});

/** Each prints indices of one state, to run them again. */
const AGAIN = ['missing', 'failed', 'stale', 'preempted'] as const satisfies readonly State[];

const RESUBMIT = group('What to run again:', {
  missing: { flags: '--missing', kind: 'flag', help: 'print the missing ones of --array, and nothing else' },
  failed: { flags: '--failed', kind: 'flag', help: 'print those that failed' },
  stale: { flags: '--stale', kind: 'flag', help: 'print those without a sign of life' },
  preempted: {
    flags: '--preempted',
    kind: 'flag',
    help: 'print those that were stopped in time, if the scheduler does not run them again itself',
  },
  suggest: {
    flags: '--suggest',
    kind: 'flag',
    help: 'print the memory and time to ask for, from what was used: one request for each index',
  },
  format: {
    flags: '--format <engine>',
    kind: 'value',
    help: "slurm (sbatch --array), lsf (bsub -J 'name[...]'), torque (qsub -t), or lines",
    read: choice(...INDEX_FORMATS),
    default: 'slurm',
  },
});

const SHOW = group('How it is shown:', {
  all: { flags: '--all', kind: 'flag', help: 'every index, however many lines that takes' },
  details: {
    flags: '--details',
    kind: 'flag',
    help: 'host, results and memory of more than 100 indices, too: one request for each',
  },
  json: { flags: '--json', kind: 'flag', help: 'JSON, one index a line' },
  watch: { flags: '--watch', kind: 'flag', help: 'again and again, until all are done' },
  every: {
    flags: '--every <duration>',
    kind: 'value',
    help: 'how long --watch waits in between',
    read: durationMs(1000),
    otherwise: '30s',
  },
});

const EVERY_MS = 30_000;

export const STATUS_OPTIONS = [...Object.values(WHICH), ...Object.values(RESUBMIT), ...Object.values(SHOW)];

/** What was asked for. */
export interface Asked {
  readonly set: IndexSet | undefined;
  readonly staleAfterMs: number;
  /** One in detail. */
  readonly index: string | undefined;
  /** Only the indices of these states, as a scheduler takes them; undefined: a table, or JSON. */
  readonly again: { readonly states: readonly State[]; readonly format: IndexFormat } | undefined;
  /** Only what to ask the scheduler for. */
  readonly suggest: IndexFormat | undefined;
  readonly all: boolean;
  readonly details: boolean;
  readonly json: boolean;
  /** The pause between two looks; undefined: one look. */
  readonly everyMs: number | undefined;
}

/** Undefined if there is no right `<url>`: that has been refused. */
export function readStatus(line: Line): { readonly given: GivenPlace; readonly asked: Asked } | undefined {
  const { values } = line;
  const given = readPlace(line);
  const states = AGAIN.filter((state) => values.has(RESUBMIT[state]));
  const format = values.of(RESUBMIT.format);
  const asked: Asked = {
    set: values.of(WHICH.array),
    staleAfterMs: values.of(WHICH['stale-after']),
    index: readIndex(line, WHICH.index),
    again: states.length === 0 ? undefined : { states, format },
    suggest: values.has(RESUBMIT.suggest) ? format : undefined,
    all: values.has(SHOW.all),
    details: values.has(SHOW.details),
    json: values.has(SHOW.json),
    everyMs: values.has(SHOW.watch) ? (values.of(SHOW.every) ?? EVERY_MS) : undefined,
  };
  refuseContradictions(line, asked);
  return given === undefined ? undefined : { given, asked };
}

function refuseContradictions({ values, refuse }: Line, asked: Asked): void {
  const { again, suggest, index: named, everyMs } = asked;
  if (values.has(RESUBMIT.missing) && asked.set === undefined)
    refuse('--missing needs to know which there should be', '--array 0-9999');
  const alone = again !== undefined || suggest !== undefined;
  if (values.has(RESUBMIT.format) && !alone)
    refuse('--format says how indices are printed, and none are asked for', '--failed --format lines');
  if (values.has(SHOW.every) && everyMs === undefined)
    refuse('--every means nothing without --watch', '--watch');
  const whole = [WHICH.array, ...Object.values(RESUBMIT), SHOW.all, SHOW.watch].filter((one) =>
    values.has(one),
  );
  if (named !== undefined && whole.length > 0)
    refuse(`one index is asked for, and ${flagOf(whole[0])} of the whole array`, 'leave one of them out');
  if (everyMs !== undefined && (alone || asked.json || asked.all))
    refuse('--watch shows what fits on the terminal, and nothing else', 'leave out --watch, or the others');
  if (alone && (asked.all || asked.details || asked.json))
    refuse('what a scheduler is to take is printed alone', 'leave out --all, --details and --json');
  if (again !== undefined && suggest !== undefined)
    refuse('--suggest prints options, and not indices', 'ask twice');
}

function flagOf(option: { readonly name: string } | undefined): string {
  return `--${option?.name ?? ''}`;
}
