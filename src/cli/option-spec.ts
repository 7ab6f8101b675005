// What an option is made of, for the tables of options: which commands take it, in which group of the help it
// stands, and how it is given.

import type { Mistake } from '../model/mistake.ts';

export type CommandName = 'run' | 'watch' | 'restore';

/** `list`: repeatable, one value each. `value`: one value, the last one counts. `flag`: no value. */
export type OptionKind = 'list' | 'value' | 'flag';

export interface OptionSpec {
  /** As commander writes it: `-r, --results <pattern>`. */
  readonly flags: string;
  readonly kind: OptionKind;
  readonly group: string;
  readonly help: string;
  /** Shown as `(default: ...)`. */
  readonly fallback?: string;
  readonly on: readonly CommandName[];
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

export const FILES = 'Files (exact path, glob or directory, relative to the work directory; repeatable):';
export const STORE = 'Store:';
export const IDENTITY = 'Who this is:';
export const LOCAL = 'Local files:';
export const CHECKPOINTS = 'Checkpoints:';
export const START = 'Start of the task:';
export const STOP = 'When we are to be stopped:';
export const END = 'End of the task:';
export const SENDING = 'Sending:';
export const MESSAGES = 'Messages:';

export function table<Name extends string>(
  specs: Readonly<Record<Name, OptionSpec>>,
): Readonly<Record<Name, OptionSpec>> {
  return specs;
}

export const list = (group: string, flags: string, help: string, on = ALL): OptionSpec => ({
  flags,
  kind: 'list',
  group,
  help,
  on,
});

export function value(group: string, flags: string, help: string, fallback?: string, on = ALL): OptionSpec {
  return { flags, kind: 'value', group, help, fallback, on };
}

export const flag = (group: string, flags: string, help: string, on = ALL): OptionSpec => ({
  flags,
  kind: 'flag',
  group,
  help,
  on,
});

/** A short option has no form with `=`: `-r=x` would be the pattern `=x`. */
export function lacksValue(flag: string): Mistake {
  const behind = `write the value behind it: ${flag} <value>`;
  return {
    message: `${flag} lacks its value`,
    hint: flag.startsWith('--') ? `${behind}, or ${flag}=<value>` : behind,
  };
}
