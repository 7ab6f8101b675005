// The tasks to run, by index: one command with placeholders for all of --array, or one task per line of --tasks. All
// mistakes are found before anything starts.
import path from 'node:path';
import type { Mistake } from '../../model/errors.ts';
import { hasIndex, type IndexSet, indicesOf, rangesOf } from '../../model/index-set.ts';
import type { JobCommand } from '../../model/many/job-file.ts';
import { type CommandTemplate, compileArgv, compileShell } from '../../model/many/placeholders.ts';
import { formatOfTasks, parseTasks, type TaskTable } from '../../model/many/task-table.ts';

/** The command of one task, and the variables that are added to its environment. */
export interface TaskCommand {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export interface Tasks {
  readonly indices: IndexSet;
  /** As the user wrote it, or a shell. The task's default name comes from it. */
  readonly argv: readonly string[];
  /** The tasks are shell commands, so no task name comes from them. */
  readonly isShell: boolean;
  commandOf(index: number): TaskCommand;
}

/** `place` is the location in the job file, if it comes from one. */
export type GivenCommand = JobCommand & { readonly place?: string };

export interface GivenTasks {
  readonly set: IndexSet | undefined;
  /** The file of --tasks. */
  readonly file: { readonly name: string; readonly text: string } | undefined;
  /** The command after `--`, or in a job file. */
  readonly command: GivenCommand | undefined;
  readonly cwd: string;
}

export function tasksOf({ set, file, command, cwd }: GivenTasks): Tasks | readonly Mistake[] {
  if (file === undefined) {
    if (set === undefined) return [NOTHING];
    return ofCommand(set, command, undefined, cwd);
  }
  const format = formatOfTasks(file.name);
  const table = parseTasks(file.text, { name: file.name, format });
  if (!('format' in table)) return table;
  const indices = set === undefined ? table.indices : both(table.indices, set);
  if (indices.ranges.length === 0)
    return [{ message: `${file.name} has no task of --array`, hint: 'its lines are counted from 0' }];
  if (format !== 'lines') return ofCommand(indices, command, table, cwd);
  if (command !== undefined) return [twoCommands(file.name)];
  return { indices, argv: SHELL, isShell: true, commandOf: (index) => shellCommand(table, index) };
}

const NOTHING: Mistake = {
  message: 'no array is given',
  hint: '--array 0-99, or --tasks <file>; in a job file array: 0-99',
};
const NO_COMMAND: Mistake = {
  message: 'no task is given',
  hint: 'put it at the end, behind --: -- ./task {index}; in a job file command: ./task {index}',
};
/** Runs a shell command. */
export const SHELL: readonly string[] = ['/bin/sh', '-c'];

function twoCommands(file: string): Mistake {
  const hint = 'give no other command, or name a .csv or .tsv';
  return { message: `each line of ${file} is a command`, hint };
}

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
  command: GivenCommand | undefined,
  table: TaskTable | undefined,
  cwd: string,
): Tasks | readonly Mistake[] {
  if (command === undefined || (command.kind === 'argv' && command.argv.length === 0)) return [NO_COMMAND];
  const template = templateOf(command, ['index', ...(table?.names ?? [])], cwd);
  if (!('argvFor' in template)) return template;
  const isShell = command.kind === 'shell';
  return {
    indices,
    argv: isShell ? SHELL : command.argv,
    isShell,
    commandOf: (index) => filled(template, table, index),
  };
}

/** The command as a template. `known` are the placeholders that have values. */
export function templateOf(
  command: GivenCommand,
  known: readonly string[],
  cwd: string,
): CommandTemplate | readonly Mistake[] {
  const template =
    command.kind === 'shell'
      ? compileShell(command.text, known)
      : compileArgv(fromHere(command.argv, cwd), known);
  const { place } = command;
  if ('argvFor' in template || place === undefined) return template;
  return template.map(({ message, hint }) => ({ message: `${place}: ${message}`, hint }));
}

function filled(template: CommandTemplate, table: TaskTable | undefined, index: number): TaskCommand {
  const columns = table?.taskOf(index)?.values ?? {};
  return { argv: template.argvFor({ ...columns, index: String(index) }), env: columns };
}

/** Each task starts in a directory of its own, so a program with a relative path gets an absolute one. */
export function fromHere([command = '', ...args]: readonly string[], cwd: string): readonly string[] {
  return [command.includes('/') ? path.resolve(cwd, command) : command, ...args];
}
