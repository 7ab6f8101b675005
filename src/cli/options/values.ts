// Reads the options of a group by their specs. A value that cannot be read becomes a mistake, and the default takes its
// place, so that all mistakes are found at once.
import { isMistake, type Mistake } from '../../model/errors.ts';
import { showPath } from '../../model/path.ts';
import type { Outside } from './outside.ts';
import type { Reader } from './readers.ts';
import type { Given, GivenOptions, Option, OptionGroup, RunName } from './spec.ts';

/** Who has called us: what a command line is read against. */
export interface Caller {
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly outside: Outside;
}

/** What the options of a run are read against. */
export interface RunCaller extends Caller {
  readonly command: RunName;
  readonly workdir: string;
  /** The task's command line; empty for `watch` and `restore`. */
  readonly argv: readonly string[];
}

/** What an option comes to, by its spec. */
type ValueOf<Spec> = Spec extends { readonly kind: 'flag' }
  ? boolean
  : Spec extends { readonly kind: 'list'; readonly read: Reader<infer T> }
    ? readonly T[]
    : Spec extends { readonly default: string; readonly read: Reader<infer T> }
      ? T
      : Spec extends { readonly read: Reader<infer T> }
        ? T | undefined
        : never;

/** What the options of a group come to. */
export type ValuesOf<Options> = { readonly [Key in keyof Options]: ValueOf<Options[Key]> };

/** `source` is what the text came from, for the message: `--to`, or `CAPTURE_TO`. */
export type Parse<T> = (text: string, source: string) => T | Mistake;

export class Values {
  readonly #given: GivenOptions;
  readonly #cwd: string;
  readonly #mistakes: Mistake[];

  /** What is wrong is added to `mistakes`. */
  constructor(given: GivenOptions, cwd: string, mistakes: Mistake[]) {
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

  /** Of a flag whether it stands there, of a list each value, of all others the last one, or the default. */
  of<Spec extends Option>(option: Spec): ValueOf<Spec> {
    return this.#valueOf(option) as ValueOf<Spec>;
  }

  /** Of all options of a group that have a reader. */
  all<Options extends OptionGroup>(options: Options): ValuesOf<Options> {
    const entries = Object.entries(options).map(([key, option]) => [key, this.#valueOf(option)]);
    return Object.fromEntries(entries) as ValuesOf<Options>;
  }

  #valueOf(option: Option): unknown {
    const { name, kind, read, default: text } = option;
    if (kind === 'flag') return this.has(option);
    if (read === undefined) return undefined;
    const parse = parserOf(read, this.#cwd);
    if (kind === 'value') return this.parsed(option, parse)?.value;
    const none = { values: text === undefined ? [] : [text], source: '' };
    const { values, source } = this.#given.get(name) ?? none;
    const found = values.map((one) => parse(one, source));
    this.refuseAll(found.filter(isMistake));
    return found.flatMap((one) => (isMistake(one) ? [] : [one.value]));
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
      this.refuseAll([found]);
    }
    return option.default === undefined ? undefined : defaultOf(option, option.default, parse);
  }

  /** Nothing is done then: all that is wrong is said at once. */
  refuse(message: string, hint: string): void {
    this.#mistakes.push({ message, hint });
  }

  refuseAll(mistakes: readonly Mistake[]): void {
    this.#mistakes.push(...mistakes);
  }
}

/** In an object, as the value may itself be undefined. */
function parserOf<T>(read: Reader<T>, cwd: string): Parse<{ readonly value: T }> {
  return (text, source) => {
    const found = read(text, cwd);
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
