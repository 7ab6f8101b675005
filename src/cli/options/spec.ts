// What an option is made of: its reader, its default, its help and its environment variable. All of that stands in its
// spec and nowhere else, but for the line in docs/options.md.
import type { Mistake } from '../../model/errors.ts';
import type { Reader } from './readers.ts';

/** The commands that work beside a task: all have these options. */
export type RunName = 'run' | 'watch' | 'restore';

/** `list`: repeatable, one value each. `value`: one value, the last one counts. `flag`: no value. */
export type OptionKind = 'list' | 'value' | 'flag';

export interface OptionSpec {
  /** As commander writes it: `-r, --results <pattern>`. Without a `<>` it takes no value: it is a flag. */
  readonly flags: string;
  /** `list`: it may be repeated. The others follow from the flags. */
  readonly kind?: OptionKind;
  readonly help: string;
  /** Which of the commands beside a task obey it. */
  readonly on?: readonly RunName[];
  /** What a text means. Without one the group's function reads it: patterns, and what other options decide. */
  readonly read?: Reader<unknown>;
  /** The text that is read when the option is not given. */
  readonly default?: string;
  /** The default in words, where the group's function finds it. */
  readonly otherwise?: string;
  /** The option that answers the same question. If it is on the command line, the variable of this one is not read. */
  readonly answeredBy?: string;
}

/** A spec in its group. */
export interface Option extends OptionSpec {
  readonly kind: OptionKind;
  /** `results`: without its dashes. */
  readonly name: string;
  /** The group's title in the help. */
  readonly group: string;
}

/** An option of the commands that work beside a task. */
export interface RunOption extends Option {
  readonly on: readonly RunName[];
}

/** The values of one option as they were given, and where: `--results` or `CAPTURE_RESULTS`. */
export interface Given {
  readonly values: readonly string[];
  readonly source: string;
}

/** By the name of the option. */
export type GivenOptions = ReadonlyMap<string, Given>;

export const ALL: readonly RunName[] = ['run', 'watch', 'restore'];
export const CAPTURING: readonly RunName[] = ['run', 'watch'];
export const RESTORING: readonly RunName[] = ['run', 'restore'];
export const RUN: readonly RunName[] = ['run'];

/** Options by what the code calls their values: `staleAfterMs` for `--stale-after`. */
export type OptionGroup = Readonly<Record<string, Option>>;

type KindOf<Spec> = Spec extends { readonly kind: infer Kind }
  ? Kind
  : Spec extends { readonly flags: `${string}<${string}` }
    ? 'value'
    : 'flag';

type InGroup<Specs> = {
  readonly [Key in keyof Specs]: Specs[Key] & {
    readonly name: string;
    readonly group: string;
    readonly kind: KindOf<Specs[Key]>;
  };
};

/** The options of one group of the help, in its order. */
export function group<const Specs extends Readonly<Record<string, OptionSpec>>>(
  title: string,
  specs: Specs,
): InGroup<Specs> {
  const entries = Object.entries(specs).map(([key, spec]) => {
    const [, name = ''] = /--([a-z-]+)/.exec(spec.flags) ?? [];
    return [key, { kind: spec.flags.includes('<') ? 'value' : 'flag', ...spec, name, group: title }];
  });
  return Object.fromEntries(entries) as InGroup<Specs>;
}

/** The help with the default. The help of a list says its default itself. */
export function helpOf({ kind, help, default: text, otherwise }: Option): string {
  const shown = text ?? otherwise;
  return shown === undefined || kind === 'list' ? help : `${help} (default: ${shown})`;
}

/** An option as it is given on a command line. */
export function wordsOf({ name, kind }: Option, values: readonly string[]): readonly string[] {
  return kind === 'flag' ? [`--${name}`] : values.map((value) => `--${name}=${value}`);
}

/** `checkpoint-settle` → `CAPTURE_CHECKPOINT_SETTLE`. */
export function envNameOf(name: string): string {
  return `CAPTURE_${name.toUpperCase().replaceAll('-', '_')}`;
}

/** Only a long option has a form with `=`: `-r=x` would be the pattern `=x`. */
export function lacksValue(flag: string): Mistake {
  const behind = `write the value behind it: ${flag} <value>`;
  return {
    message: `${flag} lacks its value`,
    hint: flag.startsWith('--') ? `${behind}, or ${flag}=<value>` : behind,
  };
}
