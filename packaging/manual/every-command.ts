// All commands with their options, for what is made of them: man pages, and completion in shells.
import { ARRAY_COMMANDS } from '../../src/array/commands.ts';
import { statusesOf } from '../../src/cli/help.ts';
import {
  COMMAND_NAMES,
  type CommandName,
  operandsOf,
  purposeOf,
  titleOf,
  usageOf,
} from '../../src/cli/commands.ts';
import { flushCommand } from '../../src/cli/flush.ts';
import { envNameOf, helpOf } from '../../src/cli/options/spec.ts';
import { knownOptions } from '../../src/cli/read-line.ts';
import { restoreCommand, runCommand, watchCommand } from '../../src/cli/run.ts';
import { MANY_COMMANDS } from '../../src/many/commands.ts';
import { COMPLETIONS } from '../../src/many/completion.ts';
import { QUEUE_COMMANDS } from '../../src/many/queue/commands.ts';
import { TEMPLATES } from '../../src/many/template.ts';

/** An option as users see it. */
export interface ShownOption {
  /** `--results`, and `-r` if there is one. */
  readonly long: string;
  readonly short: string | undefined;
  /** `<pattern>`; undefined for a flag. */
  readonly argument: string | undefined;
  readonly isRepeated: boolean;
  /** All values that it can have, if they can be listed. */
  readonly words: readonly string[];
  /** With the default. */
  readonly help: string;
  readonly group: string;
  /** `CAPTURE_RESULTS`, if it is read. */
  readonly variable: string | undefined;
}

/** A command as users see it. */
export interface ShownCommand {
  readonly name: CommandName;
  /** What users type: `capture status`. */
  readonly title: string;
  /** `<url> [index] [options]` */
  readonly usage: string;
  readonly purpose: string;
  readonly about: string;
  readonly notes: readonly string[];
  readonly examples: readonly string[];
  readonly statuses: Readonly<Record<number, string>>;
  readonly statusNotes: readonly string[];
  readonly options: readonly ShownOption[];
  /** A task follows `--`. */
  readonly takesTask: boolean;
  /** All values of its first operand, if they can be listed. */
  readonly words: readonly string[];
}

const WORDS_OF: Partial<Readonly<Record<CommandName, readonly string[]>>> = {
  template: Object.keys(TEMPLATES),
  completion: Object.keys(COMPLETIONS),
};

const COMMANDS = [
  runCommand(undefined),
  watchCommand,
  restoreCommand,
  flushCommand,
  ...ARRAY_COMMANDS,
  ...MANY_COMMANDS,
  ...QUEUE_COMMANDS,
];

/** In the order of the table of commands. */
export function everyCommand(): readonly ShownCommand[] {
  return COMMAND_NAMES.map((name) => {
    const command = COMMANDS.find((one) => one.name === name);
    if (command === undefined) throw new Error(`no list of commands has ${name}`);
    const { help, takesTask = false } = command;
    const { options, variables } = knownOptions(command);
    const { before, behind } = help.statusNotes ?? {};
    return {
      name,
      title: titleOf(name),
      usage: (help.usage ?? `${usageOf(name)} [options]`).trim(),
      purpose: purposeOf(name),
      about: help.about,
      notes: help.notes ?? [],
      examples: help.examples,
      statuses: statusesOf(command),
      statusNotes: [before, behind].filter((note) => note !== undefined),
      options: options.map((option) => ({
        long: `--${option.name}`,
        short: /^-\w(?=, )/.exec(option.flags)?.[0],
        argument: /<.*>/.exec(option.flags)?.[0],
        isRepeated: option.kind === 'list',
        words: option.read?.words ?? [],
        help: helpOf(option),
        group: option.group.replace(/:$/, ''),
        variable: variables.includes(option) ? envNameOf(option.name) : undefined,
      })),
      takesTask,
      words: operandsOf(name).length > 0 ? (WORDS_OF[name] ?? []) : [],
    };
  });
}
