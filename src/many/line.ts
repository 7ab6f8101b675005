// From the command line of `capture array` to what is to be done: its own options, and those of a run, read as a run reads
// them, so that a mistake is found once and before anything is started.
import path from 'node:path';
import { readCommandLine } from '../cli/command-line.ts';
import { withEnvironment } from '../cli/env.ts';
import { type JobLine, withJobFile } from '../cli/job/job-line.ts';
import { type GivenCommand, type Tasks, tasksOf } from '../cli/job/tasks.ts';
import { IDENTITY } from '../cli/options/identity.ts';
import { MESSAGES } from '../cli/options/messages.ts';
import { OUTPUT } from '../cli/options/output.ts';
import type { Outside } from '../cli/options/outside.ts';
import { type CommandSpec, envNameOf, type GivenOf, type Option } from '../cli/options/spec.ts';
import { STOP } from '../cli/options/stop.ts';
import { STORE } from '../cli/options/store.ts';
import { DEFAULT_TASK_NAME } from '../cli/options/task-name.ts';
import { Values } from '../cli/options/values.ts';
import { isJobFile, parseCommandLine } from '../cli/parse.ts';
import { type Mistake, reasonOf } from '../model/errors.ts';
import type { LogSettings, Settings } from '../model/format/settings.ts';
import { indicesOf } from '../model/index-set.ts';
import { showPath } from '../model/path.ts';
import { helpText } from './help.ts';
import {
  ALL_OPTIONS,
  ARRAY,
  type ArrayOptions,
  arrayOptionsOf,
  givenOfRun,
  OWN_OPTIONS,
  passedOn,
  REFUSED_OPTIONS,
  refusedOptions,
} from './options.ts';

/** What is to be done. */
export interface Asked extends ArrayOptions {
  readonly tasks: Tasks;
  readonly taskName: string;
  /** Of each run; its index, name and work directory are only an example. */
  readonly settings: Settings;
  /** The options of a run, for each task. */
  readonly passed: readonly string[];
  readonly dryRun: boolean;
  readonly cwd: string;
}

export type ParsedLine =
  | { readonly kind: 'help' | 'version'; readonly text: string }
  | { readonly kind: 'mistakes'; readonly mistakes: readonly Mistake[]; readonly log: LogSettings }
  | {
      readonly kind: 'go';
      readonly asked: Asked;
      readonly warnings: readonly Mistake[];
      readonly log: LogSettings;
    };

export const SPEC: CommandSpec<string> = {
  title: 'capture array',
  options: ALL_OPTIONS,
  idle: REFUSED_OPTIONS,
};

export interface Environment {
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly outside: Outside;
}

/** `args` stand behind the command's name: maybe a job file, options, and maybe `--` and a command. */
export function parseLine(args: readonly string[], place: Environment): ParsedLine {
  const end = args.indexOf('--');
  const ours = end === -1 ? args : args.slice(0, end);
  const job = withJobFile(ours, SPEC, place);
  const command = end === -1 ? job.command : ({ kind: 'argv', argv: args.slice(end + 1) } as const);
  const parsed = parseWords({ job, command, refused: refusedOptions(ours) }, place);
  if ('text' in parsed) return parsed;
  // A file that cannot be read leaves out what the line relies on.
  if (job.mistakes.length > 0) return { kind: 'mistakes', mistakes: job.mistakes, log: parsed.log };
  return parsed.kind === 'go' ? parsed : { ...parsed, mistakes: parsed.mistakes.map(job.placed) };
}

interface Words {
  readonly job: JobLine;
  readonly command: GivenCommand | undefined;
  /** What stands on the line and means nothing here. */
  readonly refused: readonly Mistake[];
}

function parseWords({ job, command, refused }: Words, { env, cwd, outside }: Environment): ParsedLine {
  const line = readCommandLine(SPEC, job.words);
  if (line.help) return { kind: 'help', text: helpText(SPEC) };
  if (line.version) return { kind: 'version', text: `${CAPTURE_VERSION}\n` };
  const all = withEnvironment(line.given, env, READ_HERE);
  const mistakes: Mistake[] = [...line.mistakes, ...all.mistakes, ...refused];
  for (const word of line.operands)
    mistakes.push({
      message: `'${showPath(word)}' stands where an option should`,
      hint: isJobFile(word)
        ? `a job file comes first: capture array ${showPath(word)}`
        : 'the task stands behind --: capture array --array 0-99 -- ./task {index}',
    });
  const values = new Values(all.given, cwd, mistakes);
  const log: LogSettings = {
    level: values.of(MESSAGES['log-level']),
    format: values.of(MESSAGES['log-format']),
    file: values.path(ARRAY['log-file']),
  };
  const options = arrayOptionsOf(values);
  const tasks = readTasks(values, { command, cwd, outside });
  if (!isTasks(tasks)) {
    // What is missing is in the file that stands at the wrong place.
    const missing = line.operands.some(isJobFile) ? [] : tasks;
    return { kind: 'mistakes', mistakes: [...mistakes, ...missing], log };
  }
  const run = settingsOfRun(givenOfRun(all.given), tasks, { env, cwd, outside });
  if (run.kind === 'mistakes') mistakes.push(...run.mistakes);
  mistakes.push(...contradictions(all.given, values));
  if (mistakes.length > 0 || run.kind !== 'run') return { kind: 'mistakes', mistakes, log };
  const { settings, warnings } = run;
  const asked: Asked = {
    ...options,
    tasks,
    taskName: taskNameOf(tasks, values, settings),
    settings,
    passed: passedOn(all.given),
    dryRun: values.has(ARRAY['dry-run']),
    cwd,
  };
  return { kind: 'go', asked, warnings, log };
}

function contradictions(given: GivenOf<string>, values: Values): readonly Mistake[] {
  const logOutput = given.get('log-output');
  const both =
    logOutput !== undefined && values.has(ARRAY['no-logs'])
      ? [
          {
            message: `${logOutput.source} and --no-logs contradict each other`,
            hint: 'leave one of them out',
          },
        ]
      : [];
  return given.has('to') ? both : [NO_STORE, ...both];
}

/** The variables of these count here; those of all others reach each run by themselves. */
const READ_HERE: readonly Option[] = [
  ...OWN_OPTIONS,
  MESSAGES['log-level'],
  MESSAGES['log-format'],
  IDENTITY['task-name'],
  STORE.to,
  STOP.notice,
  OUTPUT['log-output'],
];

export const NO_STORE: Mistake = {
  message:
    'no --to is given: the work directory of a task is removed when it is done, and nothing would be left',
  hint: '--to s3://bucket/prefix, or a directory',
};

export function readTasks(
  values: Values,
  {
    command,
    cwd,
    outside,
  }: Pick<Environment, 'cwd' | 'outside'> & { readonly command: GivenCommand | undefined },
): Tasks | readonly Mistake[] {
  const set = values.of(ARRAY.array);
  const name = values.of(ARRAY.tasks);
  // A wrong one has been refused: without it others would be found that are none.
  if (values.has(ARRAY.array) && set === undefined) return [];
  if (name === undefined)
    return values.has(ARRAY.tasks) ? [] : tasksOf({ set, file: undefined, command, cwd });
  try {
    const file = { name, text: outside.readText(path.resolve(cwd, name)) };
    return tasksOf({ set, file, command, cwd });
  } catch (error) {
    const hint = 'a file with one command a line, or a .csv or .tsv with a header';
    return [{ message: `--tasks '${showPath(name)}': cannot read it: ${reasonOf(error)}`, hint }];
  }
}

export function isTasks(found: Tasks | readonly Mistake[]): found is Tasks {
  return 'commandOf' in found;
}

/** What a run of the first index would make of the options, in a work directory that is not there yet. */
export function settingsOfRun(
  options: readonly string[],
  { indices, argv }: Pick<Tasks, 'indices' | 'argv'>,
  { env, cwd, outside }: Environment,
): ReturnType<typeof parseCommandLine> {
  const [first = 0] = indicesOf(indices);
  const words = [...options, `--index=${first}`, `--workdir=${SOME_WORKDIR}`, '--', ...argv];
  return parseCommandLine(words, withoutOwn(env), cwd, { ...outside, workdirProblem: () => undefined });
}

/** No pattern may name it, and no store can stand in it. */
const SOME_WORKDIR = '/dev/shm/capture-array.XXXXXX/0';

/** The environment without the variables of options that are the array's, or that mean one run alone. */
export function withoutOwn(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const own = new Set([...OWN_OPTIONS, ...REFUSED_OPTIONS].map(({ name }) => envNameOf(name)));
  return Object.fromEntries(Object.entries(env).filter(([name]) => !own.has(name) && name !== 'CAPTURE_FDS'));
}

/** Of shell commands each has another name: together they are one task. */
export function taskNameOf({ isShell }: Tasks, values: Values, { identity }: Settings): string {
  return isShell && !values.has(IDENTITY['task-name']) ? DEFAULT_TASK_NAME : identity.taskName;
}
