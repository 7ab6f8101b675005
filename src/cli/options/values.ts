// Reads the options of a group by their specs. A value that cannot be read becomes a mistake, and the default takes its
// place, so that all mistakes are found at once.
import path from 'node:path';
import { isMistake, type Mistake } from '../../model/errors.ts';
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

export class Values {
  readonly #given: GivenOf<string>;
  readonly #cwd: string;
  readonly #mistakes: Mistake[];

  /** What is wrong is added to `mistakes`. */
  constructor(given: GivenOf<string>, cwd: string, mistakes: Mistake[]) {
    this.#given = given;
    this.#cwd = cwd;
    this.#mistakes = mistakes;
  }

  given({ name }: Option): Given | undefined {
    return this.#given.get(name);
  }

  has({ name }: Option): boolean {
    return this.#given.has(name);
  }

  /** What was given last, or the default. */
  of<T>(option: WithDefault<T>): T;
  of<T>(option: Readable<T>): T | undefined;
  of<T>(option: Readable<T>): T | undefined {
    return this.parsed(option, parserOf(option.read))?.value;
  }

  /** Of an option that may be repeated each value, or the default alone. */
  each<T>({ name, read, default: text }: Readable<T>): readonly T[] {
    const none = { values: text === undefined ? [] : [text], source: '' };
    const { values, source } = this.#given.get(name) ?? none;
    const found = values.map((one) => parserOf(read)(one, source));
    this.refuse(found.filter(isMistake));
    return found.flatMap((one) => (isMistake(one) ? [] : [one.value]));
  }

  /** Absolute: taken from the current directory. */
  path(option: Readable<string>): string | undefined {
    const file = this.of(option);
    return file === undefined ? undefined : path.resolve(this.#cwd, file);
  }

  /** As `of`, where a text alone does not say what it means. */
  parsed<T>(option: Option & { readonly default: string }, parse: Parse<T>): T;
  parsed<T>(option: Option, parse: Parse<T>): T | undefined;
  parsed<T>(option: Option, parse: Parse<T>): T | undefined {
    const { values, source } = this.#given.get(option.name) ?? {};
    const text = values?.at(-1);
    if (text !== undefined && source !== undefined) {
      const found = parse(text, source);
      if (!isMistake(found)) return found;
      this.refuse([found]);
    }
    return option.default === undefined ? undefined : defaultOf(option, option.default, parse);
  }

  refuse(mistakes: readonly Mistake[]): void {
    this.#mistakes.push(...mistakes);
  }
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
