// The options for the identity of a task. They are part of object keys and records, so they must be the same at every
// attempt.
import path from 'node:path';
import { isMistake, type Mistake, reasonOf } from '../../model/errors.ts';
import { isTaskName } from '../../model/format/task-name.ts';
import type { Identity } from '../../model/format/settings.ts';
import { showPath } from '../../model/path.ts';
import { type ArrayIdentity, identify, INDEX } from '../../scheduler/identity.ts';
import { filePath, type Reader } from './readers.ts';
import { ALL, group } from './spec.ts';
import { DEFAULT_TASK_NAME, taskNameOf } from './task-name.ts';
import type { RunCaller, Values } from './values.ts';

const taskName: Reader<string> = (text) =>
  isTaskName(text)
    ? { value: text }
    : { is: 'not a task name: 1 to 64 letters, digits, dots, _ and -', example: 'lmp' };

/** May contain brackets and dots, like schedulers' ids: it is part of records, never of keys. */
const runId: Reader<string> = (text) =>
  /^[\x21-\x7e]{1,128}$/.test(text)
    ? { value: text }
    : { is: 'not a run id: 1 to 128 characters without spaces', example: '"$SLURM_ARRAY_JOB_ID"' };

export const IDENTITY = group('Identity:', {
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

const NO_ARRAY = { index: undefined, source: undefined, scheduler: {} };

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

/** A file of `--index-map`. */
interface IndexMap {
  /** The name as given. */
  readonly file: string;
  /** `--index-map` or `CAPTURE_INDEX_MAP`. */
  readonly source: string;
  readonly text: string;
}

/**
 * An array that runs only some indices, on an engine that accepts a size but no list (AWS Batch, Kubernetes): a file maps
 * each of its tasks to an index. Returns the index in line n of the file, where n is the engine's own index, counted from
 * 0. The file must have one index a line, each once: two tasks of one index would fence each other. Anything else is a
 * mistake.
 */
function mappedIdentity(array: ArrayIdentity, map: IndexMap): ArrayIdentity | Mistake {
  const shown = `${map.source} '${showPath(map.file)}'`;
  const lines = map.text.split('\n').map((line) => line.trim());
  while (lines.at(-1) === '') lines.pop();
  const [wrong] = wrongLines(lines);
  if (wrong !== undefined) {
    return {
      message: `${shown}: ${wrong}`,
      hint: 'write one index a line, each once: capture status <url> --missing --format lines',
    };
  }
  const { index, source } = array;
  if (index === undefined) {
    return {
      message: `${shown}: no engine says which line is meant`,
      hint: 'start it as an array, or give --index',
    };
  }
  const line = /^\d{1,10}$/.test(index) ? Number(index) : Number.NaN;
  const mapped = lines[line];
  if (mapped === undefined) {
    const has = lines.length === 0 ? 'it is empty' : `its lines are 0 to ${lines.length - 1}`;
    return {
      message: `${shown}: there is no line ${showPath(index)} (${source}): ${has}`,
      hint: `give the array the size ${lines.length}, with indices from 0`,
    };
  }
  return { ...array, index: mapped, source: `line ${line} of ${showPath(map.file)}, ${source}` };
}

/** The mistakes in lines counted from 0. */
function* wrongLines(lines: readonly string[]): Generator<string> {
  const seen = new Map<string, number>();
  for (const [at, line] of lines.entries()) {
    if (!INDEX.test(line)) yield `line ${at} is not an index: '${showPath(line)}'`;
    const before = seen.get(line);
    if (before !== undefined) yield `lines ${before} and ${at} are the same index, ${line}`;
    seen.set(line, at);
  }
}
