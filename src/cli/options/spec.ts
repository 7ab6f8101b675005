// The parts of an option: its reader, default, help and environment variable. Its spec is the only place for them,
// except for the line in docs/options.md.
import type { Mistake } from '../../model/errors.ts';
import type { Reader } from './readers.ts';

/** The commands that accompany a task. They share one table of options. */
export type RunName = 'run' | 'watch' | 'restore';

/** `list`: repeatable, one value each. `value`: one value, the last one wins. `flag`: no value. */
export type OptionKind = 'list' | 'value' | 'flag';

export interface OptionSpec {
  /** In commander's syntax: `-r, --results <pattern>`. Without `<>` the option is a flag. */
  readonly flags: string;
  /** `list` if it may be repeated. The other kinds follow from the flags. */
  readonly kind?: OptionKind;
  readonly help: string;
  /** The commands for which the option has an effect. */
  readonly on?: readonly RunName[];
  /**
   * Parses the value. Without a reader, the group's function parses it: patterns, and values that depend on other
   * options.
   */
  readonly read?: Reader<unknown>;
  /** This text is parsed if the option is not given. */
  readonly default?: string;
  /** The default in words, if the group's function determines it. */
  readonly otherwise?: string;
  /** Another option that sets the same thing. If it is on the command line, this option's variable is ignored. */
  readonly answeredBy?: string;
}

/** A spec in its group. */
export interface Option extends OptionSpec {
  readonly kind: OptionKind;
  /** `results`: without dashes. */
  readonly name: string;
  /** The group's title in the help. */
  readonly group: string;
}

/** An option of the commands that accompany a task. */
export interface RunOption extends Option {
  readonly on: readonly RunName[];
}

/** The given values of one option, and their origin: `--results` or `CAPTURE_RESULTS`. */
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

/** Options by the names of their values in the code: `staleAfterMs` for `--stale-after`. */
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

/** The options of one group of the help, in order. */
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

/** The help text with the default. The help text of a list contains its default already. */
export function helpOf({ kind, help, default: text, otherwise }: Option): string {
  const shown = text ?? otherwise;
  return shown === undefined || kind === 'list' ? help : `${help} (default: ${shown})`;
}

/** The option as words of a command line. */
export function wordsOf({ name, kind }: Option, values: readonly string[]): readonly string[] {
  return kind === 'flag' ? [`--${name}`] : values.map((value) => `--${name}=${value}`);
}

/** `checkpoint-settle` → `CAPTURE_CHECKPOINT_SETTLE`. */
export function envNameOf(name: string): string {
  return `CAPTURE_${name.toUpperCase().replaceAll('-', '_')}`;
}

/** Only long options support `=`: `-r=x` would be the pattern `=x`. */
export function lacksValue(flag: string): Mistake {
  const behind = `write the value behind it: ${flag} <value>`;
  return {
    message: `${flag} lacks its value`,
    hint: flag.startsWith('--') ? `${behind}, or ${flag}=<value>` : behind,
  };
}
