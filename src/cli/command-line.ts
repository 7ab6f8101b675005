// Parses the arguments before `--` with commander. It finds all mistakes and prints none. It must never read past the
// `--`, because the rest belongs to the task.
import { Command, CommanderError, Option } from 'commander';
import type { Mistake } from '../model/errors.ts';
import { showPath } from '../model/path.ts';
import { nearestWord } from '../model/nearest.ts';
import {
  type Given,
  type GivenOptions,
  helpOf,
  lacksValue,
  type Option as OptionOf,
} from './options/spec.ts';

/** The options of a command. */
export interface KnownOptions {
  /** `capture watch` */
  readonly title: string;
  /** In the order of the help. */
  readonly options: readonly OptionOf[];
  /** Accepted, but neither read nor shown. */
  readonly idle: readonly OptionOf[];
  /** A hint for an unknown option that the user may have meant for something else. */
  aside?(word: string): string;
}

export interface CommandLine {
  readonly given: GivenOptions;
  /** Arguments that are not options. */
  readonly operands: readonly string[];
  readonly mistakes: readonly Mistake[];
}

/** `job.yaml` as the first word after `capture run`, `array` or `submit` (cli/job). An option is never a job file. */
export function isJobFile(word: string): boolean {
  return /^[^-].*\.ya?ml$/is.test(word);
}

/** The command for commander: its options, in groups. It neither prints nor exits. */
export function commanderOf({ title, options, idle }: KnownOptions): Command {
  const command = new Command(title)
    .helpOption(false)
    .allowUnknownOption()
    .exitOverride()
    .configureOutput({ writeErr: () => undefined, getOutHelpWidth: () => 100, getOutHasColors: () => false });
  for (const option of options) command.addOption(optionOf(option));
  for (const option of idle) command.addOption(optionOf(option).hideHelp());
  return command;
}

function optionOf(spec: OptionOf): Option {
  const option = new Option(spec.flags, helpOf(spec)).helpGroup(spec.group);
  return spec.kind === 'flag'
    ? option
    : option.argParser<readonly string[]>((value, before) => [...(before ?? []), value]);
}

/** `args` are the arguments after the command's name, up to the `--`. */
export function readCommandLine(known: KnownOptions, args: readonly string[]): CommandLine {
  const command = commanderOf(known);
  const rest = parse(command, args);
  if ('lacksValue' in rest) {
    // commander stops at an option without its value. That option is the last argument, so the others are read without
    // it.
    const read = readCommandLine(known, args.slice(0, -1));
    return { ...read, mistakes: [...read.mistakes, lacksValue(rest.lacksValue)] };
  }
  const all = givenBy(command, [...known.options, ...known.idle]);
  const valueless = swallowed(all, command);
  const idle = new Set(known.idle.map(({ name }) => name));
  const given = new Map([...all].filter(([name]) => !idle.has(name)));
  return {
    given,
    // If an option swallowed another option as its value, the real value is left over. It is not reported as a second
    // mistake.
    operands: valueless.length > 0 ? [] : rest.operands,
    mistakes: [
      ...rest.unknown
        .filter((arg) => arg.length > 1 && arg.startsWith('-'))
        .map((arg) => unknownOption(arg, command, known)),
      ...valueless,
      ...shortWithEquals(args, command),
    ],
  };
}

function parse(
  command: Command,
  args: readonly string[],
): { readonly operands: string[]; readonly unknown: string[] } | { readonly lacksValue: string } {
  try {
    return command.parseOptions([...args]);
  } catch (error) {
    if (!(error instanceof CommanderError) || error.code !== 'commander.optionMissingArgument') throw error;
    return { lacksValue: args.at(-1) ?? '' };
  }
}

function givenBy(command: Command, options: readonly OptionOf[]): GivenOptions {
  const given = new Map<string, Given>();
  for (const { name, flags } of options) {
    // commander names `--no-x` `x`.
    const attribute = new Option(flags).attributeName();
    if (command.getOptionValueSource(attribute) !== 'cli') continue;
    const read: unknown = command.getOptionValue(attribute);
    given.set(name, { values: Array.isArray(read) ? read.map(String) : ['1'], source: `--${name}` });
  }
  return given;
}

/** `--to --index 3`: commander takes the next option as the value. */
function swallowed(given: GivenOptions, command: Command): readonly Mistake[] {
  const flags = new Set(flagsOf(command));
  return [...given.values()].flatMap(({ values, source }) =>
    values.filter((value) => flags.has(value.replace(/=.*/s, ''))).map(() => lacksValue(source)),
  );
}

/** `-r=x`: commander takes `=x` as the value. */
function shortWithEquals(args: readonly string[], command: Command): readonly Mistake[] {
  const short = new Set(command.options.filter(({ required }) => required).map((option) => option.short));
  return args.flatMap((arg) => {
    const [, flag = '', text = ''] = /^(-[^-])=(.*)$/s.exec(arg) ?? [];
    if (!short.has(flag)) return [];
    if (text === '') return [lacksValue(flag)];
    return [{ message: `${showPath(arg)}: ${flag} takes no =`, hint: `${flag} '${showPath(text)}'` }];
  });
}

function unknownOption(arg: string, command: Command, { title, options, aside }: KnownOptions): Mistake {
  const word = arg.replace(/=.*/s, '');
  if (flagsOf(command).includes(word))
    return { message: `${word} takes no value`, hint: `write ${word} alone` };
  const nearest = word.startsWith('--')
    ? nearestWord(
        word.slice(2),
        flagsOf(command).map((flag) => flag.replace(/^--?/, '')),
      )
    : undefined;
  const help = [`${title} --help`, ...(aside === undefined ? [] : [aside(showPath(word))])].join('; ');
  const message = `unknown option ${showPath(word)}`;
  if (nearest === undefined) return { message, hint: help };
  // An option that has no meaning for this command may not be what the user meant.
  const isShown = options.some(({ name }) => name === nearest);
  return { message, hint: isShown ? `--${nearest}` : `--${nearest}; ${title} --help` };
}

function flagsOf(command: Command): readonly string[] {
  return command.options
    .flatMap(({ long, short }) => [long, short])
    .filter((flag) => typeof flag === 'string');
}
