// The command line of `capture status`: what to show of the array, and how.
import type { Line } from '../../cli/command.ts';
import { choice, durationMs } from '../../cli/options/readers.ts';
import { group } from '../../cli/options/spec.ts';
import type { ValuesOf } from '../../cli/options/values.ts';
import type { State } from '../../model/format/json-output.ts';
import { INDEX_FORMATS, type IndexFormat } from '../../model/index-set.ts';
import { ARRAY_OPTION, INDEX_OPTION, readIndex, STALE_OPTION } from '../options.ts';

const WHICH = group('Which indices:', {
  set: {
    ...ARRAY_OPTION,
    help: 'the indices of the array, as the scheduler has them: 0-9999, 3,17-19,40-60:2',
  },
  index: { ...INDEX_OPTION, help: 'one index in detail' },
  staleAfterMs: STALE_OPTION,
});

/** Each of these options prints the indices of one state, to run them again. */
const AGAIN = ['missing', 'failed', 'stale', 'preempted'] as const satisfies readonly State[];

const RESUBMIT = group('What to run again:', {
  unfinished: {
    flags: '--unfinished',
    help: 'print all of these that no job of Slurm runs or is going to run: missing, failed, stale and preempted',
  },
  missing: { flags: '--missing', help: 'print the missing ones of --array, and nothing else' },
  failed: { flags: '--failed', help: 'print those that failed' },
  stale: { flags: '--stale', help: 'print those without a sign of life' },
  preempted: {
    flags: '--preempted',
    help: 'print those that were stopped in time, if the scheduler does not run them again itself',
  },
  suggest: {
    flags: '--suggest',
    help: 'print the memory and time to ask for, from what was used: one request for each index',
  },
  format: {
    flags: '--format <engine>',
    help: "slurm (sbatch --array), lsf (bsub -J 'name[...]'), torque (qsub -t), or lines",
    read: choice(...INDEX_FORMATS),
    default: 'slurm',
  },
});

const SHOW = group('How it is shown:', {
  all: { flags: '--all', help: 'every index, however many lines that takes' },
  details: {
    flags: '--details',
    help: 'host, results and memory of more than 100 indices, too: one request for each',
  },
  json: { flags: '--json', help: 'JSON, one index a line' },
  watch: { flags: '--watch', help: 'repeat this until all are done' },
  everyMs: {
    flags: '--every <duration>',
    help: 'time between two looks of --watch',
    read: durationMs(1000),
    otherwise: '30s',
  },
});

const EVERY_MS = 30_000;

export const STATUS_OPTIONS = { ...WHICH, ...RESUBMIT, ...SHOW };

type StatusOptions = ValuesOf<typeof STATUS_OPTIONS>;

export interface IndicesAgain {
  readonly states: readonly State[];
  /** Leaves out those that a scheduler still runs, or is going to. */
  readonly unfinished: boolean;
  readonly format: IndexFormat;
}

/** The parsed command line. */
export interface StatusRequest extends Pick<
  StatusOptions,
  'set' | 'staleAfterMs' | 'index' | 'all' | 'details' | 'json'
> {
  /** Print only the indices of these states, in a scheduler's format; undefined: a table, or JSON. */
  readonly again: IndicesAgain | undefined;
  /** Print only what to request from the scheduler. */
  readonly suggest: IndexFormat | undefined;
  /** The time between two looks; undefined: a single look. */
  readonly everyMs: number | undefined;
}

export function readStatus(options: StatusOptions, line: Line): StatusRequest {
  const { format, unfinished } = options;
  const states = AGAIN.filter((state) => unfinished || options[state]);
  const request: StatusRequest = {
    ...options,
    index: readIndex(line) ?? options.index,
    again: states.length === 0 ? undefined : { states, unfinished, format },
    suggest: options.suggest ? format : undefined,
    everyMs: options.watch ? (options.everyMs ?? EVERY_MS) : undefined,
  };
  refuseContradictions(line, request);
  return request;
}

function refuseContradictions({ values }: Line, request: StatusRequest): void {
  const { again, suggest, index: named, everyMs } = request;
  const needsSet = [RESUBMIT.missing, RESUBMIT.unfinished].find((one) => values.has(one));
  if (needsSet !== undefined && request.set === undefined)
    values.refuse(`--${needsSet.name} needs to know which there should be`, '--array 0-9999');
  const one = AGAIN.find((state) => values.has(RESUBMIT[state]));
  if (one !== undefined && values.has(RESUBMIT.unfinished))
    values.refuse(`--unfinished includes --${one}`, `leave out --${one}`);
  const alone = again !== undefined || suggest !== undefined;
  if (values.has(RESUBMIT.format) && !alone)
    values.refuse('--format says how indices are printed, and none are asked for', '--failed --format lines');
  if (values.has(SHOW.everyMs) && everyMs === undefined)
    values.refuse('--every means nothing without --watch', '--watch');
  const whole = [WHICH.set, ...Object.values(RESUBMIT), SHOW.all, SHOW.watch].filter((one) =>
    values.has(one),
  );
  if (named !== undefined && whole.length > 0)
    values.refuse(
      `one index is asked for, and --${whole[0]?.name} of the whole array`,
      'leave one of them out',
    );
  if (everyMs !== undefined && (alone || request.json || request.all))
    values.refuse(
      '--watch shows what fits on the terminal, and nothing else',
      'leave out --watch, or the others',
    );
  if (alone && (request.all || request.details || request.json))
    values.refuse(
      'what is printed for a scheduler is printed alone',
      'leave out --all, --details and --json',
    );
  if (again !== undefined && suggest !== undefined)
    values.refuse('--suggest prints options, and not indices', 'ask twice');
}
