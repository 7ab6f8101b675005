// The table of all options, joined from their groups. Parsing, environment, help and settings are made from it.
import { CHECKPOINTS } from './options/checkpoints.ts';
import { END } from './options/end.ts';
import { FILES } from './options/files.ts';
import { IDENTITY } from './options/identity.ts';
import { LOCAL } from './options/local.ts';
import { MESSAGES } from './options/messages.ts';
import { OUTPUT } from './options/output.ts';
import { SENDING } from './options/sending.ts';
import {
  CAPTURING,
  RUN,
  type CommandName,
  type CommandSpec,
  type GivenOf,
  type RunOption,
} from './options/spec.ts';
import { START } from './options/start.ts';
import { STOP } from './options/stop.ts';
import { STORE } from './options/store.ts';

export type { CommandName } from './options/spec.ts';

/** In the order of the help. */
const GROUPS = {
  ...FILES,
  ...STORE,
  ...IDENTITY,
  ...LOCAL,
  ...CHECKPOINTS,
  ...START,
  ...STOP,
  ...END,
  ...SENDING,
  ...MESSAGES,
  ...OUTPUT,
};

export type OptionName = keyof typeof GROUPS;
export type GivenOptions = GivenOf<OptionName>;

export const OPTIONS: { readonly [Name in OptionName]: RunOption<Name> } = GROUPS;
export const OPTION_NAMES = Object.keys(OPTIONS) as readonly OptionName[];

/** The options of a command, in the order of its help. */
export function optionsOf(command: CommandName): readonly OptionName[] {
  return OPTION_NAMES.filter((name) => OPTIONS[name].on.includes(command));
}

/**
 * Options of other commands, which this one accepts and does not read, so that one list of options serves all: those
 * of a run, and for a restore also those of the watch that may follow.
 */
export function idleOptionsOf(command: CommandName): readonly OptionName[] {
  const accepted = command === 'restore' ? CAPTURING : RUN;
  return OPTION_NAMES.filter((name) => {
    const { on } = OPTIONS[name];
    return !on.includes(command) && accepted.some((other) => on.includes(other));
  });
}

/** The command as its line is read. */
export function specOf(command: CommandName): CommandSpec<OptionName> {
  return {
    title: command === 'run' ? 'capture' : `capture ${command}`,
    options: optionsOf(command).map((name) => OPTIONS[name]),
    idle: idleOptionsOf(command).map((name) => OPTIONS[name]),
  };
}
