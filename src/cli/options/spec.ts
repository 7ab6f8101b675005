// What an option is made of: its reader, its default, its help and its environment variable. All of that stands in its
// spec and nowhere else, but for the line in docs/options.md.
import type { Mistake } from '../../model/errors.ts';
import type { Reader } from './readers.ts';

export type CommandName = 'run' | 'watch' | 'restore';

/** `list`: repeatable, one value each. `value`: one value, the last one counts. `flag`: no value. */
export type OptionKind = 'list' | 'value' | 'flag';

export interface OptionSpec {
  /** As commander writes it: `-r, --results <pattern>`. */
  readonly flags: string;
  readonly kind: OptionKind;
  readonly help: string;
  /** Of the commands that work beside a task those to which it means something. */
  readonly on?: readonly CommandName[];
  /** What a text means. Without one the group's function reads it: patterns, and what the place decides. */
  readonly read?: Reader<unknown>;
  /** The text that is read when the option is not given. */
  readonly default?: string;
  /** The default in words, where the group's function finds it. */
  readonly otherwise?: string;
  /** The option that answers the same question. If it is on the command line, the variable of this one is not read. */
  readonly answeredBy?: string;
}

/** A spec in its group. */
export interface Option<Name extends string = string> extends OptionSpec {
  /** `results`: without its dashes. */
  readonly name: Name;
  /** The group's title in the help. */
  readonly group: string;
}

/** An option of the commands that work beside a task. */
export interface RunOption<Name extends string = string> extends Option<Name> {
  readonly on: readonly CommandName[];
}

/** What the reading of a command line must know of the command. */
export interface CommandSpec<Name extends string> {
  /** `capture watch` */
  readonly title: string;
  /** In the order of the help. */
  readonly options: readonly Option<Name>[];
  /** Accepted, and neither read nor shown. */
  readonly idle: readonly Option<Name>[];
}

/** The values of one option as they were given, and where: `--results` or `CAPTURE_RESULTS`. */
export interface Given {
  readonly values: readonly string[];
  readonly source: string;
}

export type GivenOf<Name extends string> = ReadonlyMap<Name, Given>;

export const ALL: readonly CommandName[] = ['run', 'watch', 'restore'];
export const CAPTURING: readonly CommandName[] = ['run', 'watch'];
export const RESTORING: readonly CommandName[] = ['run', 'restore'];
export const RUN: readonly CommandName[] = ['run'];

type InGroup<Specs> = {
  readonly [Name in keyof Specs]: Specs[Name] & { readonly name: Name & string; readonly group: string };
};

/** The options of one group of the help, in its order, by name. */
export function group<const Specs extends Readonly<Record<string, OptionSpec>>>(
  title: string,
  specs: Specs,
): InGroup<Specs> {
  const entries = Object.entries(specs).map(([name, spec]) => [name, { ...spec, name, group: title }]);
  return Object.fromEntries(entries) as InGroup<Specs>;
}

/** The help with the default. The help of a list says its default itself. */
export function helpOf({ kind, help, default: text, otherwise }: OptionSpec): string {
  const shown = text ?? otherwise;
  return shown === undefined || kind === 'list' ? help : `${help} (default: ${shown})`;
}

/** `--results`, of `-r, --results <pattern>`. */
export function longOf({ flags, name }: Option): string {
  return /--[a-z-]+/.exec(flags)?.[0] ?? `--${name}`;
}

/** An option as it is given on a command line. */
export function wordsOf(option: Option, values: readonly string[]): readonly string[] {
  const long = longOf(option);
  return option.kind === 'flag' ? [long] : values.map((value) => `${long}=${value}`);
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
