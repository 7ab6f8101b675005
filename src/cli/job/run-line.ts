// `capture run job.yaml`: one task of a job file, as `capture array` would run it, by the index of this run. Loaded only
// if a job file is named; the command line that it comes to is then read as any other.
import path from 'node:path';
import { type Mistake, reasonOf } from '../../model/errors.ts';
import { hasIndex, NO_INDEX_SET, numberOfIndex, parseIndexSet } from '../../model/index-set.ts';
import { showPath } from '../../model/path.ts';
import { type Outside, realOutside } from '../options/outside.ts';
import { specOf } from '../options.ts';
import { DEFAULT_TASK_NAME } from '../options/task-name.ts';
import { type Parsed, parseCommandLine } from '../parse.ts';
import { type JobLine, withJobFile } from './job-line.ts';
import { type TaskCommand, tasksOf, templateOf } from './tasks.ts';

export interface RunLine {
  readonly parsed: Parsed;
  /** For the task, beside what is there. */
  readonly env: Readonly<Record<string, string>>;
}

interface Around {
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly outside: Outside;
}

/** `argv`: `run job.yaml`, options, and maybe `--` and a task, which stands for the file's then. */
export function parseRunLine(
  argv: readonly string[],
  env: NodeJS.ProcessEnv,
  cwd: string,
  outside: Outside = realOutside,
): RunLine {
  const around: Around = { env, cwd, outside };
  const end = argv.indexOf('--');
  const job = withJobFile(argv.slice(1, end === -1 ? undefined : end), specOf('run'), around);
  const own = end === -1 ? undefined : argv.slice(end + 1);
  // Which index this is, and how the task is called, is said by the options.
  const first = parse(job, own ?? namingWords(job), around);
  if (first.kind !== 'run' || own !== undefined) return { parsed: first, env: {} };
  const { index, taskName } = first.settings.identity;
  const command = commandOf(job, index, around);
  if (!('argv' in command)) return { parsed: { ...refusedBy(command), log: first.settings.log }, env: {} };
  const named = { ...job, words: [...job.words, `--task-name=${taskName}`] };
  const parsed = parse(named, command.argv, around);
  // As in `capture array`, for whoever works elsewhere.
  return { parsed, env: { CAPTURED_SUBMIT_DIR: cwd, ...command.env } };
}

function parse(job: JobLine, task: readonly string[], { env, cwd, outside }: Around): Parsed {
  const parsed = parseCommandLine(['run', ...job.words, '--', ...task], env, cwd, outside);
  if (job.mistakes.length > 0 && parsed.kind !== 'help' && parsed.kind !== 'version') {
    const { log } = parsed.kind === 'mistakes' ? parsed : parsed.settings;
    return { ...refusedBy(job.mistakes), log };
  }
  return parsed.kind === 'mistakes' ? { ...parsed, mistakes: parsed.mistakes.map(job.placed) } : parsed;
}

function refusedBy(mistakes: readonly Mistake[]): {
  readonly kind: 'mistakes';
  readonly mistakes: readonly Mistake[];
} {
  return { kind: 'mistakes', mistakes };
}

/** What the task is named for, before its placeholders are known: a shell command names none. */
function namingWords({ command }: JobLine): readonly string[] {
  return command?.kind === 'argv' ? command.argv : [DEFAULT_TASK_NAME];
}

function commandOf(
  job: JobLine,
  index: string | undefined,
  around: Around,
): TaskCommand | readonly Mistake[] {
  const { command, others } = job;
  if (others.has('array') || others.has('tasks')) return commandOfMany(job, index, around);
  if (command === undefined)
    return [{ message: 'the job file has no command', hint: 'command: ./task {index}' }];
  const template = templateOf(command, ['index'], around.cwd);
  if (!('argvFor' in template)) return template;
  if (index === undefined && template.names.includes('index')) return [noIndex(command.place)];
  return { argv: template.argvFor({ index: index ?? '' }), env: {} };
}

/** The job is an array: this run is one of its tasks. */
function commandOfMany(
  { command, others }: JobLine,
  index: string | undefined,
  { cwd, outside }: Around,
): TaskCommand | readonly Mistake[] {
  const [array, file] = [others.get('array'), others.get('tasks')];
  const set = array === undefined ? undefined : parseIndexSet(array.values[0] ?? '');
  if (array !== undefined && set === undefined)
    return [{ message: `${array.place}: ${NO_INDEX_SET.is}`, hint: `array: ${NO_INDEX_SET.example}` }];
  const name = file?.values[0] ?? '';
  let text: string | undefined;
  try {
    text = file === undefined ? undefined : outside.readText(path.resolve(cwd, name));
  } catch (error) {
    const message = `${file?.place}: cannot read '${showPath(name)}': ${reasonOf(error)}`;
    return [{ message, hint: 'a file with one command a line, or a .csv or .tsv with a header' }];
  }
  const tasks = tasksOf({ set, file: text === undefined ? undefined : { name, text }, command, cwd });
  if (!('commandOf' in tasks)) return tasks;
  const place = (array ?? file)?.place ?? '';
  if (index === undefined) return [noIndex(place)];
  const number = numberOfIndex(index);
  if (number !== undefined && hasIndex(tasks.indices, number)) return tasks.commandOf(number);
  return [
    { message: `${place}: the job has no index ${showPath(index)}`, hint: 'name one of its own: --index' },
  ];
}

function noIndex(place: string): Mistake {
  return {
    message: `${place}: the job has an index for each task, and nothing says which one this is`,
    hint: 'one of them: --index 0; all of them on this machine: capture array job.yaml',
  };
}
