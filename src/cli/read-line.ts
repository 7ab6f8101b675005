// Converts a command line and the environment into a request, in the same way for every command. It starts nothing, and
// finds all mistakes before any is reported.
import type { Mistake } from '../model/errors.ts';
import type { LogSettings } from '../model/format/settings.ts';
import { showPath } from '../model/path.ts';
import type { CommandSpec, Line } from './command.ts';
import { type CommandLine, isJobFile, type KnownOptions, readCommandLine } from './command-line.ts';
import { COMMAND_NAMES, operandsOf, titleOf } from './commands.ts';
import { helpText } from './help.ts';
import type { withJobFile } from './job/job-line.ts';
import { MESSAGES, messagesOf } from './options/messages.ts';
import { envNameOf, type Given, type GivenOptions, group, type Option } from './options/spec.ts';
import { type Caller, Values } from './options/values.ts';

export type Parsed<Request> =
  /** Help or version. */
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'mistakes';
      readonly mistakes: readonly Mistake[];
      /** How to report them. */
      readonly log: LogSettings;
    }
  | {
      readonly kind: 'go';
      readonly request: Request;
      readonly warnings: readonly Mistake[];
      readonly log: LogSettings;
    };

/** Loaded only if a job file is named. */
export type JobReader = typeof withJobFile;

/** The command that the first words name, or the first one of the program, and the words after its name. */
export function findCommand<Spec extends CommandSpec>(
  commands: readonly [Spec, ...Spec[]],
  argv: readonly string[],
): { readonly command: Spec; readonly args: readonly string[]; readonly namesJob: boolean } {
  for (const count of [2, 1]) {
    const name = argv.slice(0, count).join(' ');
    const command = commands.find((one) => one.name === name);
    if (command === undefined) continue;
    const args = argv.slice(count);
    return { command, args, namesJob: command.takesTask === true && isJobFile(args[0] ?? '') };
  }
  return { command: commands[0], args: argv, namesJob: false };
}

/**
 * `args` are the words after the command's name. The first `--` ends our arguments, and no option can take it as its
 * value.
 */
export function readLine<Request>(
  command: CommandSpec<Request>,
  args: readonly string[],
  caller: Caller,
  readJob?: JobReader,
): Parsed<Request> {
  const end = args.indexOf('--');
  const words = end === -1 ? args : args.slice(0, end);
  const behind = end === -1 ? undefined : args.slice(end + 1);
  const known = knownOptions(command);
  const job = readJob?.(words, known, caller);
  const line = readCommandLine(known, job?.words ?? words);
  const [first] = words;
  const isWord = job === undefined && first?.startsWith('-') !== true;
  const misplaced = isWord ? command.firstWordMistake?.(first, behind !== undefined) : undefined;
  if (misplaced === undefined && line.given.has(HELP.help.name))
    return { kind: 'text', text: helpText(command, known) };
  if (misplaced === undefined && line.given.has(HELP.version.name))
    return { kind: 'text', text: `${CAPTURE_VERSION}\n` };

  const { operands, repeated, stray } = operandsIn(command, line, behind);
  const mistakes = [...(caller.defaults?.mistakes ?? []), ...line.mistakes, ...stray];
  const given = withVariables(line.given, known.variables, caller, mistakes);
  const values = new Values(given, caller.cwd, mistakes);
  const log = messagesOf(values, known.options);
  if (misplaced !== undefined) return { kind: 'mistakes', mistakes: [misplaced], log };
  if (job !== undefined && job.mistakes.length > 0) {
    // Without all of the job file's content, the line may seem to lack options. So each value is only read.
    for (const option of known.options) if (given.has(option.name)) values.of(option);
    return { kind: 'mistakes', mistakes: [...job.mistakes, ...mistakes.map(job.placed)], log };
  }
  if (command.takesTask && line.operands.some(isJobFile)) return { kind: 'mistakes', mistakes, log };

  const warnings: Mistake[] = [];
  const request = command.read({
    ...caller,
    title: known.title,
    words,
    given,
    values,
    operands,
    repeated,
    hasStray: stray.length > 0,
    task: behind === undefined ? job?.command : { kind: 'argv', argv: behind },
    job,
    warn: (found) => void warnings.push(...found),
  });
  // Two readers may find the same mistake.
  const said = new Map(mistakes.map((one) => [one.message, job?.placed(one) ?? one]));
  if (request === undefined && said.size === 0) throw new Error(`${known.title} asks for nothing`);
  return said.size > 0 || request === undefined
    ? { kind: 'mistakes', mistakes: [...said.values()], log }
    : { kind: 'go', request, warnings, log };
}

const HELP = group('Help:', {
  help: { flags: '-h, --help', help: 'this text' },
  version: { flags: '-V, --version', help: 'the version of capture' },
});
const ABOUT_MESSAGES: readonly Option[] = [MESSAGES.level, MESSAGES.format, MESSAGES.file];

/** Adds the options for messages that the command does not list itself. Their variables are read, too. */
export function knownOptions(command: CommandSpec): KnownOptions & { readonly variables: readonly Option[] } {
  const { name, options, variables = [], idle = [], takesTask, wordsBehind } = command;
  const names = new Set([...options, ...idle].map((option) => option.name));
  const messages = ABOUT_MESSAGES.filter((option) => !names.has(option.name));
  const title = titleOf(name);
  const all = [...options, ...messages, ...Object.values(HELP)];
  const known = { title, options: all, idle, variables: [...variables, ...messages] };
  if (takesTask) return { ...known, aside: () => 'the options of the task stand behind its name, after --' };
  return wordsBehind ? { ...known, aside: (word) => `for a name that begins so: ./${word}` } : known;
}

/** Assigns the operands to their names, and finds the mistakes in them. */
function operandsIn(
  { name, help, takesTask, wordsBehind }: CommandSpec,
  line: CommandLine,
  behind: readonly string[] = [],
): Pick<Line, 'operands' | 'repeated'> & { readonly stray: readonly Mistake[] } {
  const title = titleOf(name);
  if (takesTask) {
    const [word] = line.operands;
    const stray = word === undefined ? [] : [strayWord(word, title, behind.length > 0)];
    return { operands: {}, repeated: [], stray };
  }
  const names = operandsOf(name);
  const given = wordsBehind ? [...line.operands, ...behind] : line.operands;
  const from = names.findIndex(({ isRepeated }) => isRepeated);
  const repeated = from === -1 ? [] : given.slice(from, from + Math.max(1, given.length - names.length + 1));
  // The first of the repeated words stands for all of them.
  const words = given.toSpliced(from + 1, Math.max(0, repeated.length - 1));
  const operands = Object.fromEntries(names.map((one, at) => [one.name, words[at]]));
  const stray: Mistake[] = [];
  const [first] = behind;
  if (first !== undefined && !wordsBehind) {
    const message = `${title} runs no task, and takes no '${showPath(first)}'`;
    stray.push({ message, hint: 'leave out -- and what stands behind it' });
  }
  const missing = names
    .slice(words.length)
    .flatMap(({ name: what, must }) => (must && !SAID_BY_COMMAND.has(what) ? [`no ${what}`] : []));
  if (missing.length > 0) {
    const message = `${missing.join(' and ')} ${missing.length === 1 ? 'is' : 'are'} named`;
    stray.push({ message, hint: help.examples[0] ?? `${title} --help` });
  }
  const extra = words[names.length];
  if (extra !== undefined)
    stray.push({ message: `${title} takes no '${showPath(extra)}'`, hint: `${title} --help` });
  return { operands, repeated, stray };
}

/**
 * If one of these is missing, the command reports it with more detail: an option or variable may replace it, or there
 * is a choice.
 */
const SAID_BY_COMMAND: ReadonlySet<string> = new Set(['url', 'directory', 'command']);

/** A word where only an option or `--` is allowed. */
function strayWord(word: string, title: string, hasTask: boolean): Mistake {
  const where = `'${showPath(word)}' stands where an option should`;
  if (isJobFile(word)) {
    const first = title === 'capture' ? 'capture run' : title;
    return { message: where, hint: `a job file comes first: ${first} ${showPath(word)}` };
  }
  if (hasTask)
    return {
      message: `'${showPath(word)}' stands between the options and the task`,
      hint: "each option takes one value; quote wildcards, so that the shell leaves them: --results '*.dat'",
    };
  const isCommand = COMMAND_NAMES.some((name) => name === word);
  const task = title === 'capture' ? `[options] -- ${showPath(word)}` : '--array 0-99 -- ./task {index}';
  return {
    message: where,
    hint: isCommand
      ? `the command comes first: capture ${word} [options]`
      : `the task stands behind --: ${title} ${task}`,
  };
}

/**
 * The given options from the command line, or else from their variables: CAPTURE_RESULTS for --results. Defaults of files
 * are among these.
 */
export function withVariables(
  given: GivenOptions,
  options: readonly Option[],
  { env, defaults }: Pick<Caller, 'env' | 'defaults'>,
  mistakes: Mistake[],
): GivenOptions {
  const all = new Map<string, Given>(given);
  for (const option of options) {
    const { name } = option;
    const variable = envNameOf(name);
    const place = defaults?.places.get(variable);
    const source = place === undefined ? variable : `${place}: ${name}`;
    const text = env[variable] ?? '';
    // Scripts set a variable to an empty string to mean "not set".
    if (text === '' || given.has(name) || given.has(option.answeredBy ?? name)) continue;
    const values = readVariable(option, text);
    if (values !== undefined && values.length > 0) all.set(name, { values, source });
    const hint = `${source}=1, or unset ${source}`;
    if (values === undefined)
      mistakes.push({ message: `${source} '${showPath(text)}': neither 1 nor 0`, hint });
  }
  return all;
}

/** The values; none for a flag that is off. Undefined if a flag's value is neither on nor off. */
function readVariable({ kind }: Option, text: string): readonly string[] | undefined {
  switch (kind) {
    case 'list':
      return text
        .split('\n')
        .map((line) => line.trim())
        .filter((line) => line !== '');
    case 'value':
      return [text];
    case 'flag':
      if (text === '1' || text === 'true') return ['1'];
      return text === '0' || text === 'false' ? [] : undefined;
  }
}
