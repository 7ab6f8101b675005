// An array that runs only some indices, on an engine that takes no list of them but a size (AWS Batch, Kubernetes): a
// file says which index each of its tasks is. Pure.
import type { Mistake } from '../model/errors.ts';
import { showPath } from '../model/path.ts';
import { type ArrayIdentity, INDEX } from './identity.ts';

/** A file of `--index-map`. */
export interface IndexMap {
  /** As it was named. */
  readonly file: string;
  /** `--index-map` or `CAPTURE_INDEX_MAP`. */
  readonly source: string;
  readonly text: string;
}

/**
 * The index in line n of the file, where n is the engine's own index, counted from 0. A mistake if the file is not one
 * index a line, each once: two tasks of one index would fence each other.
 */
export function mappedIdentity(array: ArrayIdentity, map: IndexMap): ArrayIdentity | Mistake {
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

/** What is wrong with lines, counted from 0. */
function* wrongLines(lines: readonly string[]): Generator<string> {
  const seen = new Map<string, number>();
  for (const [at, line] of lines.entries()) {
    if (!INDEX.test(line)) yield `line ${at} is not an index: '${showPath(line)}'`;
    const before = seen.get(line);
    if (before !== undefined) yield `lines ${before} and ${at} are the same index, ${line}`;
    seen.set(line, at);
  }
}
