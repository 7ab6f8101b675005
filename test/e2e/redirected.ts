// Runs whose output goes where a test says, and what is stored of it.
import { BIN, type Place, type Run } from './support.ts';
import { readFound } from './store-files.ts';

/** A shell runs capture, in its own place: `where` is `>out 2>err`, and `script` the task. The task's name is t. */
export function redirected(
  place: Place,
  where: string,
  script: string,
  options: readonly string[],
  env?: NodeJS.ProcessEnv,
): Run {
  const words = [BIN, '--to', place.store, '--task-name', 't', ...options, '--', 'sh', '-c', script];
  const quoted = words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
  return place.exec(['sh', '-c', `exec ${quoted} ${where}`], env);
}

const PREFIX = '.capture/~output/t/0/';

/** Their ends, in order. */
export function outputKeys(place: Place): readonly string[] {
  return readFound(place.store)
    .filter((key) => key.includes('~output'))
    .map((key) => key.slice(PREFIX.length));
}

/** What is stored of a stream: `stdout`, `stderr`, or `output` if both are one. */
export function outputOf(place: Place, stream: string): Buffer {
  const keys = outputKeys(place).filter((key) => key.split('.')[1] === stream);
  return Buffer.concat(keys.map((key) => place.stored(`${PREFIX}${key}`)));
}
