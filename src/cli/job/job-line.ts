// A command line whose first word is a job file: what the file says is read as if it stood on the line, and the line itself
// wins. `capture array`, `submit` and `run` read theirs with it, each its own options; what is for the others is left out.
import path from 'node:path';
import { type Mistake, reasonOf } from '../../model/errors.ts';
import { type JobFile, type JobOption, parseJobFile } from '../../model/many/job-file.ts';
import { showPath } from '../../model/path.ts';
import { readCommandLine } from '../command-line.ts';
import type { Outside } from '../options/outside.ts';
import { type CommandSpec, longOf, type Option, wordsOf } from '../options/spec.ts';
import { isJobFile } from '../parse.ts';
import { JOB_KEYS } from './keys.ts';

export interface JobLine {
  /** Options: those of the file, then those of the line. */
  readonly words: readonly string[];
  /** Undefined if the file has none, or there is no file. */
  readonly command: JobFile['command'];
  /** What the file says to other commands, by key. */
  readonly others: ReadonlyMap<string, JobOption>;
  /** Of the file itself. Then the words are those of the line alone. */
  readonly mistakes: readonly Mistake[];
  /** A mistake with an option of the file gets its line. */
  readonly placed: (mistake: Mistake) => Mistake;
}

/** Where files are looked for. */
export interface JobPlace {
  readonly cwd: string;
  readonly outside: Pick<Outside, 'readText'>;
}

/** `words` stand behind the command's name, up to the `--`. */
export function withJobFile(words: readonly string[], spec: CommandSpec<string>, place: JobPlace): JobLine {
  const [name = '', ...own] = words;
  const none = { command: undefined, others: new Map(), mistakes: [], placed: (mistake: Mistake) => mistake };
  if (!isJobFile(name)) return { words, ...none };
  const job = readJobFile(name, place);
  if (!('given' in job)) return { words: own, ...none, mistakes: job };
  const { given, command } = job;
  const line = readCommandLine(spec, own).given;
  // List for list, and as an environment variable would be.
  const isOnLine = (option: Option): boolean =>
    line.has(option.name) || (option.answeredBy !== undefined && line.has(option.answeredBy));
  const used = spec.options.filter((option) => given.has(option.name) && !isOnLine(option));
  const read = new Set(spec.options.map((option) => option.name));
  return {
    words: [...used.flatMap((option) => wordsOf(option, given.get(option.name)?.values ?? [])), ...own],
    command,
    others: new Map([...given].filter(([key]) => !read.has(key))),
    mistakes: [],
    placed: (mistake) => placed(mistake, used, given),
  };
}

function readJobFile(name: string, { cwd, outside }: JobPlace): JobFile | readonly Mistake[] {
  let text: string;
  try {
    text = outside.readText(path.resolve(cwd, name));
  } catch (error) {
    const message = `job file '${showPath(name)}': cannot read it: ${reasonOf(error)}`;
    return [{ message, hint: 'capture template > job.yaml writes one to begin with' }];
  }
  return parseJobFile(text, { name, keys: JOB_KEYS });
}

/** The first option that the message names is the one that it is about. */
function placed(mistake: Mistake, used: readonly Option[], given: ReadonlyMap<string, JobOption>): Mistake {
  const { message, hint } = mistake;
  for (const [flag] of message.matchAll(/--[a-z-]+/g)) {
    const key = used.find((option) => longOf(option) === flag)?.name ?? '';
    const place = given.get(key)?.place;
    if (place === undefined) continue;
    const asKey = hint.startsWith(`${flag} `) ? `${key}: ${hint.slice(flag.length + 1)}` : hint;
    return { message: `${place}: ${message}`, hint: asKey };
  }
  return mistake;
}
