// Parses the options of a group by their specs. An invalid value becomes a mistake and is replaced by the default, so
// that all mistakes are found at once.
import { isMistake, type Mistake } from '../../model/errors.ts';
import { showPath } from '../../model/path.ts';
import type { Defaults } from './defaults.ts';
import type { Outside } from './outside.ts';
import type { Reader } from './readers.ts';
import type { Given, GivenOptions, Option, OptionGroup, RunName } from './spec.ts';

/** The caller's environment and directory, which a command line is parsed against. */
export interface Caller {
  /** With the defaults of files in it. */
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly outside: Outside;
  /** Undefined if no file of defaults was read. */
  readonly defaults?: Defaults | undefined;
}

/** What the options of a run are parsed against. */
export interface RunCaller extends Caller {
  readonly command: RunName;
  readonly workdir: string;
  /** The task's command line; empty for `watch` and `restore`. */
  readonly argv: readonly string[];
}

/** The type of an option's value, by its spec. */
type ValueOf<Spec> = Spec extends { readonly kind: 'flag' }
  ? boolean
  : Spec extends { readonly kind: 'list'; readonly read: Reader<infer T> }
    ? readonly T[]
    : Spec extends { readonly default: string; readonly read: Reader<infer T> }
      ? T
      : Spec extends { readonly read: Reader<infer T> }
        ? T | undefined
        : never;

/** The values of the options of a group. */
export type ValuesOf<Options> = { readonly [Key in keyof Options]: ValueOf<Options[Key]> };

/** `source` is the origin of the text, for the message: `--to`, or `CAPTURE_TO`. */
export type Parse<T> = (text: string, source: string) => T | Mistake;

export class Values {
  readonly #given: GivenOptions;
  readonly #cwd: string;
  readonly #mistakes: Mistake[];

  /** Mistakes are added to `mistakes`. */
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

  /** For a flag, whether it is given. For a list, all values. For other options, the last value or the default. */
  of<Spec extends Option>(option: Spec): ValueOf<Spec> {
    return this.#valueOf(option) as ValueOf<Spec>;
  }

  /** The values of all options of a group that have a reader. */
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

  /** Like `of`, for a value that needs more than its text to be parsed. */
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

  /** Adds a mistake. The command then does not run, and all mistakes are reported together. */
  refuse(message: string, hint: string): void {
    this.#mistakes.push({ message, hint });
  }

  refuseAll(mistakes: readonly Mistake[]): void {
    this.#mistakes.push(...mistakes);
  }
}

/** Another value in the place of a given one: of `--grace`, `CAPTURE_GRACE`, or `'capture.yaml', line 3: grace`. */
function asGiven(source: string, value: string): string {
  if (source.startsWith('--')) return `${source} ${value}`;
  const [, key] = /: ([a-z-]+)$/.exec(source) ?? [];
  return key === undefined ? `${source}=${value}` : `${key}: ${value}`;
}

/** Wrapped in an object, because the value itself may be undefined. */
function parserOf<T>(read: Reader<T>, cwd: string): Parse<{ readonly value: T }> {
  return (text, source) => {
    const found = read(text, cwd);
    if ('value' in found) return found;
    return { message: `${source} '${showPath(text)}': ${found.is}`, hint: asGiven(source, found.example) };
  };
}

function defaultOf<T>({ name }: Option, text: string, parse: Parse<T>): T {
  const found = parse(text, `--${name}`);
  if (isMistake(found)) throw new Error(`the default of --${name} is wrong: ${found.message}`);
  return found;
}
