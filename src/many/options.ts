// The options that only `capture array` has, and how it treats those of a run: it passes them on to each task, takes
// them for the whole array, or refuses them.
import type { Mistake } from '../model/errors.ts';
import { type Halt, parseHalt } from '../model/many/halt.ts';
import { ARRAY_OPTION } from '../array/options.ts';
import type { Line } from '../cli/command.ts';
import { optionsOf } from '../cli/options.ts';
import { END } from '../cli/options/end.ts';
import { IDENTITY } from '../cli/options/identity.ts';
import { MESSAGES, NOTIFY_OPTION } from '../cli/options/messages.ts';
import {
  absolutePath,
  count,
  filePath,
  type Reader,
  shellCommand,
  sizeBytes,
} from '../cli/options/readers.ts';
import { STOP } from '../cli/options/stop.ts';
import { STORE } from '../cli/options/store.ts';
import { type GivenOptions, group, type Option, wordsOf } from '../cli/options/spec.ts';

const jobs: Reader<number> = (text) => {
  if (text === 'auto') return { value: Infinity };
  const found = count(1, Infinity)(text);
  return 'value' in found ? found : { is: 'neither auto nor a number of tasks', example: '4' };
};

/** Cores and loads may be fractions, such as 0.5. */
const amount: Reader<number> = (text) => {
  const value = /^\d{1,6}(\.\d{1,3})?$/.test(text) ? Number(text) : 0;
  return value > 0 ? { value } : { is: 'not a number above 0', example: '2' };
};

const halt: Reader<Halt> = (text) => {
  const value = parseHalt(text);
  const is = 'not when to halt: never, soon or now, after so many failed indices or %';
  return value === undefined ? { is, example: 'soon,fail=3' } : { value };
};

export const ARRAY = group('The array:', {
  set: { ...ARRAY_OPTION, help: 'the indices, such as 0-99; with --tasks only these of the file' },
  tasks: {
    flags: '--tasks <file>',
    help: 'one shell command a line, line n is index n; or a .csv or .tsv with a header, for {column}',
    read: filePath,
  },
  jobs: {
    flags: '--jobs <n>',
    help: 'so many tasks at once; auto: as many as cores and memory allow',
    read: jobs,
    default: 'auto',
  },
  cores: { flags: '--cpus <n>', help: 'cores that a task uses', read: amount, default: '1' },
  memoryBytes: {
    flags: '--memory <size>',
    help: 'memory that a task uses',
    read: sizeBytes,
    otherwise: 'learned from the first ones',
  },
  nice: { flags: '--nice <n>', help: 'lower the priority of the tasks, 1 to 19', read: count(1, 19) },
  maxLoad: {
    flags: '--max-load <n>',
    help: 'start no task that would bring the load of the machine above it',
    read: amount,
  },
  scratch: {
    flags: '--scratch <dir>',
    help: 'work directories of the tasks are made below it',
    read: absolutePath,
    otherwise: 'in memory (tmpfs) if there is room, else $TMPDIR',
  },
  retries: {
    flags: '--retries <n>',
    help: 'try a task that failed again, so often',
    read: count(0, 1000),
    default: '0',
  },
  halt: {
    flags: '--halt <when>',
    help: 'when tasks have failed: never, or soon,fail=n (start none more), now,fail=n (end those that run); n may be 10%',
    read: halt,
    default: 'never',
  },
  joblog: {
    flags: '--joblog <file>',
    help: 'append a line for each task that ended, as GNU parallel does',
    read: absolutePath,
  },
  noLogs: { flags: '--no-logs', help: 'do not store what the tasks write to stdout and stderr' },
  onEnd: {
    flags: '--on-end <command>',
    help: "a shell command to run at the end, whatever the outcome, such as 'shutdown -h now'",
    read: shellCommand,
  },
  notify: {
    ...NOTIFY_OPTION,
    help: 'report that all are done, or that some have failed: to a URL (a POST of JSON) or a command (JSON on stdin)',
  },
  dryRun: { ...MESSAGES.dryRun, help: 'print what would be run and where; start and store nothing' },
  logFile: { ...MESSAGES.file },
});

/** Options of a run that make no sense here, and what to use instead. */
const REFUSED: Readonly<Record<string, string>> = {
  index: '--array 3 runs index 3 alone',
  'index-map': '--array 3,17,20 runs these alone',
  workdir: '--scratch <dir>: each task has a work directory of its own below it',
  'shared-workdir': '--scratch <dir>: each task has a work directory of its own below it',
  requeue: 'run the same capture array again: it does what is left',
  metrics: 'capture status <url>: the numbers of the whole array',
};

/** A run has a default store to try it out. An array has none: it must look up in the store which indices are left. */
const { default: _, ...NO_DEFAULT } = STORE.to;
const TO: Option = { ...NO_DEFAULT, help: `${NO_DEFAULT.help}; you must give it` };

export const OWN_OPTIONS: readonly Option[] = Object.values(ARRAY);
const OWN_NAMES = new Set(OWN_OPTIONS.map(({ name }) => name));
export const REFUSED_OPTIONS: readonly Option[] = optionsOf('run').filter(({ name }) =>
  Object.hasOwn(REFUSED, name),
);
export const OF_RUN: readonly Option[] = optionsOf('run')
  .filter(({ name }) => !Object.hasOwn(REFUSED, name) && !OWN_NAMES.has(name))
  .map((option) => (option.name === TO.name ? TO : option));
export const ALL_OPTIONS: readonly Option[] = [...OWN_OPTIONS, ...OF_RUN];

export function refusedOptions({ title, words }: Pick<Line, 'title' | 'words'>): readonly Mistake[] {
  return Object.entries(REFUSED).flatMap(([name, hint]) =>
    words.some((word) => word === `--${name}` || word.startsWith(`--${name}=`))
      ? [{ message: `${title} takes no --${name}`, hint }]
      : [],
  );
}

/** All tasks have one name, and only the runner polls for notices. */
const OF_THE_ARRAY: ReadonlySet<Option> = new Set<Option>([STOP.notice, IDENTITY.taskName]);

/** The options of a run as given, for each task. Each task reads variables itself. */
export function passedOn(given: GivenOptions): readonly string[] {
  return [
    ...OF_RUN.filter((option) => !OF_THE_ARRAY.has(option)).flatMap((option) => givenWords(given, option)),
    ...logOutput(given),
  ];
}

/** The same for the check of all options before anything starts. */
export function givenOfRun(given: GivenOptions): readonly string[] {
  return [...[...OF_RUN, END.notify].flatMap((option) => givenWords(given, option)), ...logOutput(given)];
}

/** The output of the tasks is stored, unless --no-logs is given. */
export function logOutput(given: GivenOptions): readonly string[] {
  if (given.has('log-output') || given.has('no-last-lines')) return [];
  return [given.has('no-logs') ? '--no-last-lines' : '--log-output'];
}

function givenWords(given: GivenOptions, option: Option): readonly string[] {
  const { source = '' } = given.get(option.name) ?? {};
  return source.startsWith('-') ? everyWordOf(given, option) : [];
}

/** All values of an option, also those from its variable. */
export function everyWordOf(given: GivenOptions, option: Option): readonly string[] {
  const { values } = given.get(option.name) ?? {};
  return values === undefined ? [] : wordsOf(option, values);
}
