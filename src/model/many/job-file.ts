// A job file: a command and the options of a run, an array or a submission; each key is the name of an option. Its
// values are then read as if they stood on the command line. This file only finds them, and reports keys that are not
// options, with their line. Pure: the text is an argument.
import { isMistake, type Mistake } from '../errors.ts';
import { nearestWord } from '../nearest.ts';
import { showPath } from '../path.ts';
import { type JobEntry, mistakeIn, placeIn, readJobYaml } from './job-yaml.ts';

/** An option as a key. `list`: one or several values. `value`: one. `flag`: true or false. */
export interface JobKey {
  readonly name: string;
  readonly kind: Kind;
}

type Kind = 'list' | 'value' | 'flag';

/** The value of one key, in the form of a command-line option. A flag that is on has the value `1`. */
export interface JobOption {
  readonly values: readonly string[];
  /** `'job.yaml', line 3`, for messages. */
  readonly place: string;
}

/** A text runs with `sh -c`; a list is started as it is, without a shell. */
export type JobCommand =
  | { readonly kind: 'shell'; readonly text: string }
  | { readonly kind: 'argv'; readonly argv: readonly string[] };

export interface JobFile {
  /** By option name; flags that are off are left out. */
  readonly given: ReadonlyMap<string, JobOption>;
  /** The flags that are off, with their places. */
  readonly off: ReadonlyMap<string, string>;
  /** The place is that of the key, as for an option. */
  readonly command: (JobCommand & { readonly place: string }) | undefined;
  /** Each with its line. What has one is left out above. */
  readonly mistakes: readonly Mistake[];
}

const COMMAND = 'command';

/**
 * The contents of a job file. `keys`: the options of all commands that read job files, so one file serves them all;
 * each command ignores options that it does not have.
 */
export function parseJobFile(
  text: string,
  file: { readonly name: string; readonly keys: readonly JobKey[] },
): JobFile {
  const { entries, mistakes: unreadable } = readJobYaml(text, file.name);
  const mistakes = [...unreadable];
  const kinds = new Map(file.keys.map(({ name, kind }) => [name, kind]));
  const given = new Map<string, JobOption>();
  const off = new Map<string, string>();
  let command: JobFile['command'];
  for (const entry of entries) {
    const { key, line } = entry;
    const found = key === COMMAND ? commandOf(entry) : optionOf(entry, kinds);
    if (isMistake(found)) mistakes.push(mistakeIn(file.name, line, found.message, found.hint));
    else if ('kind' in found) command = { ...found, place: placeIn(file.name, line) };
    else if (found.length > 0) given.set(key, { values: found, place: placeIn(file.name, line) });
    else off.set(key, placeIn(file.name, line));
  }
  return { given, off, command, mistakes };
}

function commandOf({ value }: JobEntry): JobCommand | Mistake {
  const first = typeof value === 'string' ? value : (value[0] ?? '');
  if (first.trim() === '') return { message: 'the command is empty', hint: 'command: ./task {index}' };
  // execve(2) ends an argument at a NUL.
  if ([value].flat().some((text) => text.includes('\0')))
    return { message: 'the command holds a NUL byte', hint: 'leave it out' };
  return typeof value === 'string' ? { kind: 'shell', text: value } : { kind: 'argv', argv: value };
}

function optionOf({ key, value }: JobEntry, kinds: ReadonlyMap<string, Kind>): readonly string[] | Mistake {
  const kind = kinds.get(key);
  if (kind === undefined) return unknownKey(key, kinds);
  const texts = typeof value === 'string' ? [value] : value;
  if (texts.length === 0 || texts.includes(''))
    return { message: `${key} lacks its value`, hint: 'write it behind the colon, or leave the key out' };
  const [text = ''] = texts;
  switch (kind) {
    case 'flag':
      if (value === 'true') return ['1'];
      return value === 'false' ? [] : { message: `${key} is either true or false`, hint: `${key}: true` };
    case 'value':
      return typeof value === 'string'
        ? texts
        : { message: `${key} takes one value, and this is a list`, hint: `${key}: ${text}` };
    case 'list':
      return texts.some((one) => one.includes('\n'))
        ? {
            message: `${key} has a value of several lines`,
            hint: 'write a list: each value behind - in a line of its own',
          }
        : texts;
  }
}

function unknownKey(key: string, kinds: ReadonlyMap<string, Kind>): Mistake {
  const nearest = nearestWord(key, [COMMAND, ...kinds.keys()]);
  return {
    message: `'${showPath(key)}' is not a key of a job file`,
    hint: nearest ?? 'capture template shows all keys',
  };
}
