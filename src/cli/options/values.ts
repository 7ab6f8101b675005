// Reads the options of a group by their specs. A value that cannot be read becomes a mistake, and the default takes its
// place, so that all mistakes are found at once.
import path from 'node:path';
import { isMistake, type Mistake } from '../../model/mistake.ts';
import { showPath } from '../../model/path.ts';
import type { Outside } from './outside.ts';
import type { Reader } from './readers.ts';
import type { CommandName, Given, GivenOf, Option } from './spec.ts';

/** What a command line is read against. */
export interface Place {
  readonly command: CommandName;
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly workdir: string;
  /** The task's command line; empty for `watch` and `restore`. */
  readonly argv: readonly string[];
  readonly outside: Outside;
}

interface Readable<T> extends Option {
  readonly read: Reader<T>;
}

interface WithDefault<T> extends Readable<T> {
  readonly default: string;
}

/** `source` is what the text came from, for the message: `--to`, or `CAPTURE_TO`. */
export type Parse<T> = (text: string, source: string) => T | Mistake;

export interface Values {
  given(option: Option): Given | undefined;
  has(option: Option): boolean;
  /** What was given last, or the default. */
  of<T>(option: WithDefault<T>): T;
  of<T>(option: Readable<T>): T | undefined;
  /** Of an option that may be repeated each value, or the default alone. */
  each<T>(option: Readable<T>): readonly T[];
  /** Absolute: taken from the current directory. */
  path(option: Readable<string>): string | undefined;
  /** As `of`, where a text alone does not say what it means. */
  parsed<T>(option: Option & { readonly default: string }, parse: Parse<T>): T;
  parsed<T>(option: Option, parse: Parse<T>): T | undefined;
  refuse(mistakes: readonly Mistake[]): void;
}

export function valuesOf(given: GivenOf<string>, cwd: string, mistakes: Mistake[]): Values {
  const parsed = <T>(option: Option, parse: Parse<T>): T | undefined => {
    const { values, source } = given.get(option.name) ?? {};
    const text = values?.at(-1);
    if (text !== undefined && source !== undefined) {
      const found = parse(text, source);
      if (!isMistake(found)) return found;
      mistakes.push(found);
    }
    return option.default === undefined ? undefined : defaultOf(option, option.default, parse);
  };
  const of = <T>(option: Readable<T>): T | undefined => parsed(option, parserOf(option.read))?.value;
  return {
    given: ({ name }) => given.get(name),
    has: ({ name }) => given.has(name),
    of,
    each: ({ name, read, default: text }) => {
      const { values, source } = given.get(name) ?? { values: text === undefined ? [] : [text], source: '' };
      const found = values.map((text) => parserOf(read)(text, source));
      mistakes.push(...found.filter(isMistake));
      return found.flatMap((one) => (isMistake(one) ? [] : [one.value]));
    },
    path: (option) => {
      const file = of(option);
      return file === undefined ? undefined : path.resolve(cwd, file);
    },
    parsed,
    refuse: (found) => void mistakes.push(...found),
  };
}

/** In an object, as the value may itself be undefined. */
function parserOf<T>(read: Reader<T>): Parse<{ readonly value: T }> {
  return (text, source) => {
    const found = read(text);
    if ('value' in found) return found;
    return {
      message: `${source} '${showPath(text)}': ${found.is}`,
      hint: source.startsWith('--') ? `${source} ${found.example}` : `${source}=${found.example}`,
    };
  };
}

function defaultOf<T>({ name }: Option, text: string, parse: Parse<T>): T {
  const found = parse(text, `--${name}`);
  if (isMistake(found)) throw new Error(`the default of --${name} is wrong: ${found.message}`);
  return found;
}
