// The options that `capture array` has of its own, and which of a run's it passes on to each task, takes for the whole
// array, or refuses.
import { isMistake, type Mistake } from '../model/errors.ts';
import type { TaskNeeds } from '../model/many/admission.ts';
import { type Halt, parseHalt } from '../model/many/halt.ts';
import { ARRAY_OPTION } from '../array/array-option.ts';
import { type OptionName, OPTIONS, optionsOf } from '../cli/options.ts';
import { MESSAGES } from '../cli/options/messages.ts';
import { NOTIFY_OPTION } from '../cli/options/notify.ts';
import { count, filePath, type Reader, sizeBytes } from '../cli/options/readers.ts';
import { type GivenOf, group, type Option, wordsOf } from '../cli/options/spec.ts';
import type { Values } from '../cli/options/values.ts';

const jobs: Reader<number> = (text) => {
  if (text === 'auto') return { value: Infinity };
  const found = count(1, Infinity)(text);
  return 'value' in found ? found : { is: 'neither auto nor a number of tasks', example: '4' };
};

/** Cores and loads: 0.5 is one. */
const amount: Reader<number> = (text) => {
  const value = /^\d{1,6}(\.\d{1,3})?$/.test(text) ? Number(text) : 0;
  return value > 0 ? { value } : { is: 'not a number above 0', example: '2' };
};

const command: Reader<string> = (text) =>
  text.trim() === '' || text.includes('\0')
    ? { is: 'not a command', example: "'shutdown -h now'" }
    : { value: text };

export const ARRAY = group('The array:', {
  array: { ...ARRAY_OPTION, help: 'the indices, such as 0-99; with --tasks only these of the file' },
  tasks: {
    flags: '--tasks <file>',
    kind: 'value',
    help: 'one shell command a line, line n is index n; or a .csv or .tsv with a header, for {column}',
    read: filePath,
  },
  jobs: {
    flags: '--jobs <n>',
    kind: 'value',
    help: 'so many tasks at once; auto: as many as cores and memory allow',
    read: jobs,
    default: 'auto',
  },
  cpus: { flags: '--cpus <n>', kind: 'value', help: 'cores that a task uses', read: amount, default: '1' },
  memory: {
    flags: '--memory <size>',
    kind: 'value',
    help: 'memory that a task uses',
    read: sizeBytes,
    otherwise: 'learned from the first ones',
  },
  nice: {
    flags: '--nice <n>',
    kind: 'value',
    help: 'lower the priority of the tasks, 1 to 19',
    read: count(1, 19),
  },
  'max-load': {
    flags: '--max-load <n>',
    kind: 'value',
    help: 'start no task that would bring the load of the machine above it',
    read: amount,
  },
  scratch: {
    flags: '--scratch <dir>',
    kind: 'value',
    help: 'work directories of the tasks are made below it',
    read: filePath,
    otherwise: 'in memory (tmpfs) if there is room, else $TMPDIR',
  },
  retries: {
    flags: '--retries <n>',
    kind: 'value',
    help: 'try a task that failed again, so often',
    read: count(0, 1000),
    default: '0',
  },
  halt: {
    flags: '--halt <when>',
    kind: 'value',
    help: 'when tasks have failed: never, or soon,fail=n (start none more), now,fail=n (end those that run); n may be 10%',
    default: 'never',
  },
  joblog: {
    flags: '--joblog <file>',
    kind: 'value',
    help: 'append a line for each task that ended, as GNU parallel does',
    read: filePath,
  },
  'no-logs': {
    flags: '--no-logs',
    kind: 'flag',
    help: 'do not store what the tasks write to stdout and stderr',
  },
  'on-end': {
    flags: '--on-end <command>',
    kind: 'value',
    help: "a shell command as the last act, however it ended, such as 'shutdown -h now'",
    read: command,
  },
  notify: {
    ...NOTIFY_OPTION,
    help: 'tell it when all are done, or some have failed: one POST of JSON, or a command',
  },
  'dry-run': { ...MESSAGES['dry-run'], help: 'print what would be run and where; start and store nothing' },
  'log-file': { ...MESSAGES['log-file'] },
});

/** Options of a run that this command takes for the whole array; each task has its own log, and hears notices from us. */
const TAKEN: ReadonlySet<string> = new Set<OptionName>([
  'notify',
  'dry-run',
  'log-file',
  'notice',
  'task-name',
]);

/** Options of a run that mean nothing here, and what to do. */
const REFUSED = {
  index: '--array 3 runs index 3 alone',
  'index-map': '--array 3,17,20 runs these alone',
  workdir: '--scratch <dir>: each task has a work directory of its own below it',
  'shared-workdir': '--scratch <dir>: each task has a work directory of its own below it',
  requeue: 'run the same capture array again: it does what is left',
  metrics: 'capture status <url>: the numbers of the whole array',
} satisfies Partial<Record<OptionName, string>>;

/** The default of a run is there to try it out; of an array it must be said what is left of it. */
const { default: _, ...NO_DEFAULT } = OPTIONS.to;
const TO: Option = { ...NO_DEFAULT, help: `${NO_DEFAULT.help}; you must give it` };

export const OF_RUN: readonly Option[] = optionsOf('run')
  .filter((name) => !Object.hasOwn(REFUSED, name) && !Object.hasOwn(ARRAY, name))
  .map((name) => (name === 'to' ? TO : OPTIONS[name]));

export const OWN_OPTIONS: readonly Option[] = Object.values(ARRAY);
export const ALL_OPTIONS: readonly Option[] = [...OWN_OPTIONS, ...OF_RUN];
export const REFUSED_OPTIONS: readonly Option[] = Object.keys(REFUSED).map(
  (name) => OPTIONS[name as OptionName],
);

export function refusedOptions(args: readonly string[]): readonly Mistake[] {
  return Object.entries(REFUSED).flatMap(([name, hint]) =>
    args.some((word) => word === `--${name}` || word.startsWith(`--${name}=`))
      ? [{ message: `capture array takes no --${name}`, hint }]
      : [],
  );
}

/** The options of a run as they were given, for each task. What variables say reaches it by itself. */
export function passedOn(given: GivenOf<string>): readonly string[] {
  return [
    ...OF_RUN.filter(({ name }) => !TAKEN.has(name)).flatMap((option) => givenWords(given, option)),
    ...logOutput(given),
  ];
}

/** The same for a look at all of them at once, before anything is started. */
export function givenOfRun(given: GivenOf<string>): readonly string[] {
  return [...[...OF_RUN, OPTIONS.notify].flatMap((option) => givenWords(given, option)), ...logOutput(given)];
}

/** What the tasks write is stored, unless --no-logs says otherwise. */
export function logOutput(given: GivenOf<string>): readonly string[] {
  return given.has('no-logs') || given.has('log-output') ? [] : ['--log-output'];
}

function givenWords(given: GivenOf<string>, option: Option): readonly string[] {
  const { source = '' } = given.get(option.name) ?? {};
  return source.startsWith('-') ? everyWordOf(given, option) : [];
}

/** Also if it was a variable. */
export function everyWordOf(given: GivenOf<string>, option: Option): readonly string[] {
  const { values } = given.get(option.name) ?? {};
  return values === undefined ? [] : wordsOf(option, values);
}

export interface ArrayOptions {
  /** Infinity: as many as fit. */
  readonly jobs: number;
  readonly needs: TaskNeeds;
  readonly nice: number | undefined;
  readonly maxLoad: number | undefined;
  readonly scratch: string | undefined;
  readonly retries: number;
  readonly halt: Halt;
  readonly joblog: string | undefined;
  readonly onEnd: string | undefined;
}

export function haltOf(text: string, source: string): Halt | Mistake {
  const found = parseHalt(text);
  if (!isMistake(found)) return found;
  return { message: `${source} ${found.message}`, hint: `${source} ${found.hint}` };
}

export function arrayOptionsOf(values: Values): ArrayOptions {
  return {
    jobs: values.of(ARRAY.jobs),
    needs: { cores: values.of(ARRAY.cpus), memoryBytes: values.of(ARRAY.memory) },
    nice: values.of(ARRAY.nice),
    maxLoad: values.of(ARRAY['max-load']),
    scratch: values.path(ARRAY.scratch),
    retries: values.of(ARRAY.retries),
    halt: values.parsed(ARRAY.halt, haltOf),
    joblog: values.path(ARRAY.joblog),
    onEnd: values.of(ARRAY['on-end']),
  };
}
