// The options that say who this is. They stand in object keys and in records, and must be the same at every attempt.
import path from 'node:path';
import { isMistake, type Mistake, reasonOf } from '../../model/errors.ts';
import { isTaskName } from '../../model/format/task-name.ts';
import type { Identity } from '../../model/format/settings.ts';
import { showPath } from '../../model/path.ts';
import { type ArrayIdentity, identify } from '../../scheduler/identity.ts';
import { mappedIdentity } from '../../scheduler/index-map.ts';
import { filePath, type Reader } from './readers.ts';
import { ALL, group } from './spec.ts';
import { DEFAULT_TASK_NAME, taskNameOf } from './task-name.ts';
import type { RunCaller, Values } from './values.ts';

const taskName: Reader<string> = (text) =>
  isTaskName(text)
    ? { value: text }
    : { is: 'not a task name: 1 to 64 letters, digits, dots, _ and -', example: 'lmp' };

/** It may have brackets and dots, as schedulers' ids do: it stands in records, never in keys. */
const runId: Reader<string> = (text) =>
  /^[\x21-\x7e]{1,128}$/.test(text)
    ? { value: text }
    : { is: 'not a run id: 1 to 128 characters without spaces', example: '"$SLURM_ARRAY_JOB_ID"' };

export const IDENTITY = group('Who this is:', {
  index: {
    flags: '--index <id>',
    help: '1 to 64 letters, digits, _ and -',
    on: ALL,
    otherwise: "the scheduler's, else none",
  },
  indexMap: {
    flags: '--index-map <file>',
    help: "line n of it, from 0, is the index of the scheduler's task n: to run some again",
    on: ALL,
    read: filePath,
  },
  taskName: {
    flags: '--task-name <name>',
    help: 'names checkpoints and records',
    on: ALL,
    read: taskName,
    otherwise: "base name of the task's command, or task",
  },
  runId: {
    flags: '--run <id>',
    help: 'restore only what was stored under the same id, such as $SLURM_ARRAY_JOB_ID',
    on: ALL,
    read: runId,
  },
});

export function identityOf(values: Values, caller: RunCaller): Identity {
  const { argv } = caller;
  const array = arrayOf(values, caller);
  if (isMistake(array)) values.refuseAll([array]);
  const { index: found, source, scheduler } = isMistake(array) ? NO_ARRAY : array;
  return {
    taskName: values.of(IDENTITY.taskName) ?? (argv.length === 0 ? DEFAULT_TASK_NAME : taskNameOf(argv)),
    index: found,
    indexSource: source,
    runId: values.of(IDENTITY.runId),
    argv,
    scheduler,
  };
}

function arrayOf(values: Values, { env, cwd, outside }: RunCaller): ArrayIdentity | Mistake {
  const index = values.given(IDENTITY.index);
  const array = identify(
    env,
    index === undefined ? undefined : { value: index.values.at(-1) ?? '', source: index.source },
    outside.readText,
  );
  const file = values.of(IDENTITY.indexMap);
  if (file === undefined || isMistake(array)) return array;
  const { source = '' } = values.given(IDENTITY.indexMap) ?? {};
  if (index !== undefined) {
    return {
      message: `${index.source} and ${source} cannot both say which index this is`,
      hint: 'leave one of them out',
    };
  }
  try {
    return mappedIdentity(array, { file, source, text: outside.readText(path.resolve(cwd, file)) });
  } catch (error) {
    return {
      message: `${source} '${showPath(file)}': cannot read it: ${reasonOf(error)}`,
      hint: 'put the file where each task can read it, and name it by its full path',
    };
  }
}

const NO_ARRAY = { index: undefined, source: undefined, scheduler: {} };
