// The command line of `capture array`: its own options, and the options of a run. A run's own parser reads the latter,
// so that a mistake is reported once, before anything starts.
import path from 'node:path';
import type { CommandSpec, Line } from '../cli/command.ts';
import { refuseMissingProgram, warnOfFilesHere } from '../cli/job/from-here.ts';
import { type Tasks, tasksOf } from '../cli/job/tasks.ts';
import { IDENTITY } from '../cli/options/identity.ts';
import { NO_STORE, SOME_WORKDIR } from '../cli/options/local.ts';
import { MESSAGES } from '../cli/options/messages.ts';
import { envNameOf } from '../cli/options/spec.ts';
import { STOP } from '../cli/options/stop.ts';
import { STORE } from '../cli/options/store.ts';
import { DEFAULT_TASK_NAME } from '../cli/options/task-name.ts';
import type { Caller, Values, ValuesOf } from '../cli/options/values.ts';
import { type Parsed, readLine } from '../cli/read-line.ts';
import { RUN_SPEC, type RunRequest } from '../cli/run-spec.ts';
import { reasonOf } from '../model/errors.ts';
import type { Settings } from '../model/format/settings.ts';
import { indicesOf } from '../model/index-set.ts';
import type { TaskNeeds } from '../model/many/admission.ts';
import { showPath } from '../model/path.ts';
import {
  ALL_OPTIONS,
  ARRAY,
  givenOfRun,
  OWN_OPTIONS,
  passedOn,
  REFUSED_OPTIONS,
  refusedOptions,
} from './options.ts';

/** The parsed command line. */
export interface ArrayRequest extends Pick<
  ValuesOf<typeof ARRAY>,
  'jobs' | 'nice' | 'maxLoad' | 'scratch' | 'retries' | 'halt' | 'joblog' | 'onEnd' | 'dryRun'
> {
  readonly needs: TaskNeeds;
  readonly tasks: Tasks;
  readonly taskName: string;
  /** The settings of each run. Index, name and work directory are only an example. */
  readonly settings: Settings;
  /** The options of a run that every task gets. */
  readonly passed: readonly string[];
  readonly cwd: string;
}

export const ARRAY_SPEC: CommandSpec<ArrayRequest> = {
  name: 'array',
  help: {
    usage: '[job.yaml] [options] [-- <task> [args...]]',
    about:
      'Runs all tasks of an array on this machine, as many at once as it has room for, each of them as capture runs one: in a ' +
      'work directory of its own, stored as its files are closed, resumed from its checkpoint. What is done in the store ' +
      'is not run again. {index} in the command is the index, {name} a column of --tasks. A job file has the same options ' +
      'as keys, and the command: capture template > job.yaml writes one to begin with. The command line wins.',
    notes: [
      `Signals:
  SIGTERM, SIGINT: each task is told to checkpoint and end, and is stored. A second SIGINT (Ctrl-C)
  does not wait for checkpoints, a third one kills all. The same command later does what is left.
`,
    ],
    statuses: {
      0: 'all are done',
      1: 'some have failed',
      64: 'an option is wrong (nothing was started)',
      69: 'the store cannot be used (nothing was started)',
      75: 'told to stop (SIGTERM, a notice), and some are left: run me again',
      76: 'what is not done is at work in other attempts',
      130: 'stopped by SIGINT, and some are left',
    },
    examples: [
      'capture array --array 0-99 -r final.dat -k state.chk --to s3://lab/run7 -- ./task {index}',
      'capture array --tasks commands.txt -r out/ --to /shared/run7 --retries 2 --halt soon,fail=10%',
      'capture array --tasks runs.csv -r final.dat --to s3://lab/run7 -- ./task --seed {seed}',
      'capture array job.yaml --jobs 2',
    ],
  },
  options: ALL_OPTIONS,
  idle: REFUSED_OPTIONS,
  // All other variables reach each run through the environment.
  variables: [
    ...OWN_OPTIONS,
    MESSAGES.level,
    MESSAGES.format,
    MESSAGES.json,
    IDENTITY.taskName,
    STORE.to,
    STOP.notice,
    MESSAGES.logOutput,
  ],
  takesTask: true,
  handlesSignals: true,
  read: readArray,
};

function readArray(line: Line): ArrayRequest | undefined {
  const { values, given, cwd } = line;
  values.refuseAll(refusedOptions(line));
  const { cores, memoryBytes, ...own } = values.all(ARRAY);
  const tasks = readTasks(line);
  if (tasks === undefined) return undefined;
  const run = settingsOfRun(givenOfRun(given), tasks, line);
  if (run.kind === 'mistakes') values.refuseAll(run.mistakes);
  refuseContradictions(line);
  refuseMissingProgram(line, tasks, true);
  if (run.kind !== 'go') return undefined;
  const { settings } = run.request;
  line.warn(run.warnings);
  warnOfFilesHere(line, tasks, settings.manifest);
  return {
    ...own,
    needs: { cores, memoryBytes },
    tasks,
    taskName: taskNameOf(tasks, values, settings),
    settings,
    passed: passedOn(given),
    cwd,
  };
}

function refuseContradictions({ given, values }: Line): void {
  if (!given.has(STORE.to.name)) values.refuseAll([NO_STORE]);
  const logOutput = values.given(MESSAGES.logOutput);
  if (logOutput !== undefined && values.has(ARRAY.noLogs))
    values.refuse(`${logOutput.source} and --no-logs contradict each other`, 'leave one of them out');
}

/** Undefined if no tasks are given, or if a mistake was reported. */
export function readTasks({ values, task: command, cwd, outside }: Line): Tasks | undefined {
  const set = values.of(ARRAY.set);
  const name = values.of(ARRAY.tasks);
  // A mistake in --set was already reported. Without the set, other tasks would be found.
  if (values.has(ARRAY.set) && set === undefined) return undefined;
  if (values.has(ARRAY.tasks) && name === undefined) return undefined;
  try {
    const file = name === undefined ? undefined : { name, text: outside.readText(path.resolve(cwd, name)) };
    const tasks = tasksOf({ set, file, command, cwd });
    if ('commandOf' in tasks) return tasks;
    values.refuseAll(tasks);
  } catch (error) {
    const hint = 'a file with one command a line, or a .csv or .tsv with a header';
    values.refuse(`--tasks '${showPath(name ?? '')}': cannot read it: ${reasonOf(error)}`, hint);
  }
  return undefined;
}

/** What a run of the first index would make of the options. Its work directory does not exist yet. */
export function settingsOfRun(
  options: readonly string[],
  { indices, argv }: Pick<Tasks, 'indices' | 'argv'>,
  { env, cwd, outside }: Caller,
): Parsed<RunRequest> {
  const [first = 0] = indicesOf(indices);
  const words = [...options, `--index=${first}`, `--workdir=${SOME_WORKDIR}`, '--', ...argv];
  const caller = { env: withoutOwn(env), cwd, outside: { ...outside, workdirProblem: () => undefined } };
  return readLine(RUN_SPEC, words, caller);
}

/** The environment without the variables of options that belong to the array or to one run only. */
export function withoutOwn(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const own = new Set([...OWN_OPTIONS, ...REFUSED_OPTIONS].map(({ name }) => envNameOf(name)));
  return Object.fromEntries(Object.entries(env).filter(([name]) => !own.has(name) && name !== 'CAPTURE_FDS'));
}

/** Shell commands differ in name, but together they are one task. */
export function taskNameOf({ isShell }: Tasks, values: Values, { identity }: Settings): string {
  return isShell && !values.has(IDENTITY.taskName) ? DEFAULT_TASK_NAME : identity.taskName;
}
