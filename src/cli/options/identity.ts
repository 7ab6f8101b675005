// The options that say who this is. They stand in object keys and in records, and must be the same at every attempt.
import { isMistake } from '../../model/errors.ts';
import type { Identity } from '../../model/format/settings.ts';
import { identify } from '../../scheduler/identity.ts';
import type { Reader } from './readers.ts';
import { ALL, group } from './spec.ts';
import { DEFAULT_TASK_NAME, isTaskName, taskNameOf } from './task-name.ts';
import type { Place, Values } from './values.ts';

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
    kind: 'value',
    help: '1 to 64 letters, digits, _ and -',
    on: ALL,
    otherwise: "the scheduler's, else none",
  },
  'task-name': {
    flags: '--task-name <name>',
    kind: 'value',
    help: 'names checkpoints and records',
    on: ALL,
    read: taskName,
    otherwise: "base name of the task's command, or task",
  },
  run: {
    flags: '--run <id>',
    kind: 'value',
    help: 'restore only what was stored under the same id, such as $SLURM_ARRAY_JOB_ID',
    on: ALL,
    read: runId,
  },
});

export function identityOf(values: Values, { env, argv, outside }: Place): Identity {
  const index = values.given(IDENTITY.index);
  const array = identify(
    env,
    index === undefined ? undefined : { value: index.values.at(-1) ?? '', source: index.source },
    outside.readText,
  );
  if (isMistake(array)) values.refuse([array]);
  const { index: found, source, scheduler } = isMistake(array) ? NO_ARRAY : array;
  return {
    taskName: values.of(IDENTITY['task-name']) ?? (argv.length === 0 ? DEFAULT_TASK_NAME : taskNameOf(argv)),
    index: found,
    indexSource: source,
    runId: values.of(IDENTITY.run),
    argv,
    scheduler,
  };
}

const NO_ARRAY = { index: undefined, source: undefined, scheduler: {} };
