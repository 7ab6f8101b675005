// What is to be run, by index: one command with placeholders for all of --array, or one task a line of --tasks. All
// mistakes are found before anything is started.
import path from 'node:path';
import type { Mistake } from '../model/errors.ts';
import { hasIndex, type IndexSet, indicesOf, rangesOf } from '../model/index-set.ts';
import { type CommandTemplate, compileArgv } from '../model/many/placeholders.ts';
import { tooMany } from '../model/many/plan.ts';
import { formatOfTasks, parseTasks, type TaskTable } from '../model/many/task-table.ts';

/** The command of one task, and what it finds in its environment beside what is there. */
export interface TaskCommand {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export interface Tasks {
  readonly indices: IndexSet;
  /** As the user wrote it, or a shell: what the task is named for. */
  readonly argv: readonly string[];
  /** One shell command a line: none of them names the others. */
  readonly isShell: boolean;
  commandOf(index: number): TaskCommand;
}

export interface GivenTasks {
  readonly set: IndexSet | undefined;
  /** The file of --tasks. */
  readonly file: { readonly name: string; readonly text: string } | undefined;
  /** What stands behind `--`; undefined without one. */
  readonly argv: readonly string[] | undefined;
  readonly cwd: string;
}

export function tasksOf(given: GivenTasks): Tasks | readonly Mistake[] {
  const { set, file, argv } = given;
  const refused = set && tooMany(set);
  if (refused !== undefined) return [refused];
  if (file === undefined) {
    if (set === undefined) return [NOTHING];
    if (argv === undefined || argv.length === 0) return [NO_COMMAND];
    return ofCommand(set, argv, undefined, given.cwd);
  }
  const format = formatOfTasks(file.name);
  const table = parseTasks(file.text, { name: file.name, format });
  if (!('format' in table)) return table;
  const indices = set === undefined ? table.indices : both(table.indices, set);
  if (indices.ranges.length === 0)
    return [{ message: `${file.name} has no task of --array`, hint: 'its lines are counted from 0' }];
  if (format === 'lines') {
    return argv === undefined
      ? { indices, argv: SHELL, isShell: true, commandOf: (index) => shellCommand(table, index) }
      : [
          {
            message: `each line of ${file.name} is a command`,
            hint: 'leave out what stands behind --, or name a .csv or .tsv',
          },
        ];
  }
  if (argv === undefined || argv.length === 0) return [NO_COMMAND];
  return ofCommand(indices, argv, table, given.cwd);
}

const NOTHING: Mistake = { message: 'no array is given', hint: '--array 0-99, or --tasks <file>' };
const NO_COMMAND: Mistake = {
  message: 'no task is given',
  hint: 'capture array --array 0-99 -- ./task {index}',
};
const SHELL = ['/bin/sh', '-c'];

function both(indices: IndexSet, set: IndexSet): IndexSet {
  const numbers = function* (): Generator<number> {
    for (const index of indicesOf(indices)) if (hasIndex(set, index)) yield index;
  };
  return { ranges: [...rangesOf(numbers())] };
}

function shellCommand(table: TaskTable, index: number): TaskCommand {
  return { argv: [...SHELL, table.taskOf(index)?.command ?? ''], env: {} };
}

function ofCommand(
  indices: IndexSet,
  argv: readonly string[],
  table: TaskTable | undefined,
  cwd: string,
): Tasks | readonly Mistake[] {
  const template = compileArgv(fromHere(argv, cwd), ['index', ...(table?.names ?? [])]);
  if (!('argvFor' in template)) return template;
  return { indices, argv, isShell: false, commandOf: (index) => filled(template, table, index) };
}

function filled(template: CommandTemplate, table: TaskTable | undefined, index: number): TaskCommand {
  const columns = table?.taskOf(index)?.values ?? {};
  return { argv: template.argvFor({ ...columns, index: String(index) }), env: columns };
}

/** Each task works in a directory of its own: a program named by its path from here stays the same one. */
function fromHere([command = '', ...args]: readonly string[], cwd: string): readonly string[] {
  return [command.includes('/') ? path.resolve(cwd, command) : command, ...args];
}
