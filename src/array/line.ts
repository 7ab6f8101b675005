// From the arguments behind the command's name to what is to be carried out. All mistakes are found before any is said.
import { ARRAY_COMMANDS, type ArrayCommandName } from '../cli/array-commands.ts';
import { type CommandSpec, envNameOf, type Option } from '../cli/options/spec.ts';
import { commanderOf, readCommandLine } from '../cli/command-line.ts';
import { withEnvironment } from '../cli/env.ts';
import { MESSAGES, messagesOf } from '../cli/options/messages.ts';
import { Values } from '../cli/options/values.ts';
import type { Mistake } from '../model/errors.ts';
import type { LogSettings } from '../model/format/settings.ts';
import type { ArrayCommand, CarryOut, Line } from './command.ts';
import { PLACE_OPTIONS } from './place.ts';

const { 'log-level': level, 'log-format': format, 'log-file': file } = MESSAGES;
/** Only of these the variables are read: those of others mean the task of a run, not a whole array. */
function sharedBy({ shared = PLACE_OPTIONS }: ArrayCommand): readonly Option[] {
  return [...shared, level, format, file];
}

export type ParsedLine =
  | { readonly kind: 'help' | 'version'; readonly text: string }
  | { readonly kind: 'mistakes'; readonly mistakes: readonly Mistake[]; readonly log: LogSettings }
  | { readonly kind: 'go'; readonly carryOut: CarryOut; readonly log: LogSettings };

interface Environment {
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
}

/** `args` stand behind the command's name. */
export function parseLine(
  name: ArrayCommandName,
  command: ArrayCommand,
  args: readonly string[],
  { env, cwd }: Environment,
): ParsedLine {
  const spec = specOf(name, command);
  const read = readCommandLine(spec, args);
  if (read.help) return { kind: 'help', text: helpText(name, spec, command) };
  if (read.version) return { kind: 'version', text: `${CAPTURE_VERSION}\n` };
  const { given, mistakes: ofEnvironment } = withEnvironment(read.given, env, sharedBy(command));
  const mistakes: Mistake[] = [...read.mistakes, ...ofEnvironment];
  const values = new Values(given, cwd, mistakes);
  const log = messagesOf(values);
  const carryOut = command.read({
    title: spec.title,
    values,
    cwd,
    ...urlOf(read.operands, env, spec.title),
    refuse: (message, hint) => mistakes.push({ message, hint }),
  });
  return mistakes.length > 0 ? { kind: 'mistakes', mistakes, log } : { kind: 'go', carryOut, log };
}

function urlOf(
  [first, ...rest]: readonly string[],
  env: NodeJS.ProcessEnv,
  title: string,
): Pick<Line, 'url' | 'operands'> {
  if (first !== undefined) return { url: { text: first, source: title }, operands: rest };
  const text = env['CAPTURE_TO'] ?? '';
  return { url: text === '' ? undefined : { text, source: 'CAPTURE_TO' }, operands: [] };
}

function specOf(name: string, command: ArrayCommand): CommandSpec<string> {
  return { title: `capture ${name}`, options: [...command.options, ...sharedBy(command)], idle: [] };
}

function helpText(name: ArrayCommandName, spec: CommandSpec<string>, command: ArrayCommand): string {
  const { required, about, statuses, examples } = command.help;
  const words = [ARRAY_COMMANDS[name].operands, ...(required === undefined ? [] : [required]), '[options]'];
  const [first] = sharedBy(command);
  return [
    `${commanderOf(spec).usage(words.join(' ')).description(about).helpInformation().trimEnd()}\n`,
    `Variables:
  CAPTURE_TO stands for the <url>, if there is none; ${envNameOf(first?.name ?? '')}, CAPTURE_PATH_STYLE=1 and
  CAPTURE_LOG_LEVEL for these options. Credentials are found as for a run.
`,
    `Exit status:
${statuses.trimEnd()}
   64  an option or the <url> is wrong
${command.shared === undefined ? STATUSES_OF_READING : ''}   70  capture itself failed
  143  stopped by SIGTERM (130 by SIGINT, ...)
`,
    `Examples:\n${examples.map((line) => `  ${line}\n`).join('')}`,
  ].join('\n');
}

/** Of the commands that read what is stored of an array. */
const STATUSES_OF_READING = `   66  nothing is stored there
   69  the store cannot be used
`;
