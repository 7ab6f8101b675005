// A command line whose first word is a job file. The file's options are read as if they were on the line, and the line
// wins. `capture run`, `array` and `submit` each read their own options, and skip those of the others.
import path from 'node:path';
import { type Mistake, reasonOf } from '../../model/errors.ts';
import { hasIndex, NO_INDEX_SET, numberOfIndex, parseIndexSet } from '../../model/index-set.ts';
import { type JobFile, type JobOption, parseJobFile } from '../../model/many/job-file.ts';
import { showPath } from '../../model/path.ts';
import { isJobFile, type KnownOptions, readCommandLine } from '../command-line.ts';
import { type Option, wordsOf } from '../options/spec.ts';
import type { Caller } from '../options/values.ts';
import { JOB_KEYS } from './keys.ts';
import { type TaskCommand, tasksOf, templateOf } from './tasks.ts';

export { readDefaults } from './read-defaults.ts';

export interface JobLine {
  /** The file's options, then those of the line. */
  readonly words: readonly string[];
  /** Undefined if the file contains no command. */
  readonly command: JobFile['command'];
  /** Mistakes in the file itself. */
  readonly mistakes: readonly Mistake[];
  /** Adds the line in the file to a mistake about one of its options. */
  placed(mistake: Mistake): Mistake;
  /** The command for the run with this index, or the mistakes. */
  taskOf(index: string | undefined): TaskCommand | readonly Mistake[];
}

/** `words` are those after the command's name, up to the `--`. Undefined if the first one is not a job file. */
export function withJobFile(
  words: readonly string[],
  known: KnownOptions,
  caller: Pick<Caller, 'cwd' | 'outside'>,
): JobLine | undefined {
  const [name = '', ...own] = words;
  if (!isJobFile(name)) return undefined;
  const job = readJobFile(name, caller);
  const { given, command, mistakes } = job;
  const line = readCommandLine(known, own).given;
  // A list on the line replaces the file's whole list. As for variables, `answeredBy` on the line does so, too.
  const isOnLine = (option: Option): boolean =>
    line.has(option.name) || (option.answeredBy !== undefined && line.has(option.answeredBy));
  const used = known.options.filter((option) => given.has(option.name) && !isOnLine(option));
  return {
    words: [...used.flatMap((option) => wordsOf(option, given.get(option.name)?.values ?? [])), ...own],
    command,
    mistakes,
    placed: (mistake) => placed(mistake, used, given),
    taskOf: (index) => taskOf(job, index, caller),
  };
}

function readJobFile(name: string, { cwd, outside }: Pick<Caller, 'cwd' | 'outside'>): JobFile {
  let text: string;
  try {
    text = outside.readText(path.resolve(cwd, name));
  } catch (error) {
    const message = `job file '${showPath(name)}': cannot read it: ${reasonOf(error)}`;
    const hint = 'capture template > job.yaml writes one to begin with';
    return { given: new Map(), off: new Map(), command: undefined, mistakes: [{ message, hint }] };
  }
  return parseJobFile(text, { name, keys: JOB_KEYS });
}

/** The mistake is about the first option that its message names. */
function placed(mistake: Mistake, used: readonly Option[], given: ReadonlyMap<string, JobOption>): Mistake {
  const { message, hint } = mistake;
  for (const [flag, key = ''] of message.matchAll(/--([a-z-]+)/g)) {
    const place = used.some(({ name }) => name === key) ? given.get(key)?.place : undefined;
    if (place === undefined) continue;
    const asKey = hint.startsWith(`${flag} `) ? `${key}: ${hint.slice(flag.length + 1)}` : hint;
    return { message: `${place}: ${message}`, hint: asKey };
  }
  return mistake;
}

function taskOf(
  { given, command, mistakes }: JobFile,
  index: string | undefined,
  caller: Pick<Caller, 'cwd' | 'outside'>,
): TaskCommand | readonly Mistake[] {
  if (mistakes.length > 0) return mistakes;
  if (given.has('array') || given.has('tasks')) return taskOfArray({ given, command }, index, caller);
  if (command === undefined)
    return [{ message: 'the job file has no command', hint: 'command: ./task {index}' }];
  const template = templateOf(command, ['index'], caller.cwd);
  if (!('argvFor' in template)) return template;
  if (index === undefined && template.names.includes('index')) return [noIndex(command.place)];
  return { argv: template.argvFor({ index: index ?? '' }), env: {} };
}

/** The job is an array, and this run is one of its tasks. */
function taskOfArray(
  { given, command }: Pick<JobFile, 'given' | 'command'>,
  index: string | undefined,
  { cwd, outside }: Pick<Caller, 'cwd' | 'outside'>,
): TaskCommand | readonly Mistake[] {
  const [array, file] = [given.get('array'), given.get('tasks')];
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
