// Read this first. What a command on a queue is made of, and the table of them: `capture submit`, `capture worker` and
// `capture queue`. Each has one file here, which reads its line and carries it out.
import { commanderOf, readCommandLine } from '../../cli/command-line.ts';
import { withEnvironment } from '../../cli/env.ts';
import { withJobFile } from '../../cli/job/job-line.ts';
import type { GivenCommand } from '../../cli/job/tasks.ts';
import { isJobFile } from '../../cli/parse.ts';
import { MESSAGES, messagesOf } from '../../cli/options/messages.ts';
import type { Outside } from '../../cli/options/outside.ts';
import type { GivenOf, Option } from '../../cli/options/spec.ts';
import { Values } from '../../cli/options/values.ts';
import type { Log } from '../../log/log.ts';
import type { Mistake } from '../../model/errors.ts';
import type { ExitStatus } from '../../model/exit-status.ts';
import type { LogSettings } from '../../model/format/settings.ts';
import { showPath } from '../../model/path.ts';

export interface QueueCommand {
  /** `capture queue status` */
  readonly title: string;
  /** Behind the title: `[options] -- <task> [args...]` */
  readonly usage: string;
  readonly about: string;
  /** Each line begins with the number. 64, 69 and 70 are added. */
  readonly statuses: string;
  readonly examples: readonly string[];
  readonly options: readonly Option[];
  /** Of these the variables count, too. */
  readonly variables: readonly Option[];
  /** Something may stand behind `--`, or in a job file. */
  readonly takesTask: boolean;
  /** What is wrong goes to `line.refuse`, all of it at once: then nothing is carried out. It asks nobody. */
  readonly read: (line: QueueLine) => CarryOut;
}

export interface QueueLine {
  readonly title: string;
  readonly given: GivenOf<string>;
  readonly values: Values;
  readonly operands: readonly string[];
  /** Behind `--`, or in a job file; undefined without one. */
  readonly command: GivenCommand | undefined;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly outside: Outside;
  readonly refuse: (...mistakes: readonly Mistake[]) => void;
}

/** What a command works with. Whoever made them closes them. */
export interface QueueTools {
  readonly log: Log;
  /** stdout. */
  readonly print: (text: string) => void;
  readonly env: NodeJS.ProcessEnv;
  /** The module that runs one task. */
  readonly entry: string;
  /** The module of the sidecar. */
  readonly sidecarEntry: string;
}

export type CarryOut = (tools: QueueTools) => Promise<ExitStatus>;

export type ParsedLine =
  | { readonly kind: 'help' | 'version'; readonly text: string }
  | { readonly kind: 'mistakes'; readonly mistakes: readonly Mistake[]; readonly log: LogSettings }
  | { readonly kind: 'go'; readonly carryOut: CarryOut; readonly log: LogSettings };

const LOG_OPTIONS: readonly Option[] = [MESSAGES['log-level'], MESSAGES['log-format']];

/** `args` stand behind the command's name. */
export function parseQueueLine(
  command: QueueCommand,
  args: readonly string[],
  { env, cwd, outside }: Pick<QueueLine, 'env' | 'cwd' | 'outside'>,
): ParsedLine {
  const end = args.indexOf('--');
  const ours = end === -1 ? args : args.slice(0, end);
  const missing = LOG_OPTIONS.filter(({ name }) => !command.options.some((one) => one.name === name));
  const spec = { title: command.title, options: [...command.options, ...missing], idle: [] };
  const job = command.takesTask ? withJobFile(ours, spec, { cwd, outside }) : undefined;
  const line = readCommandLine(spec, job?.words ?? ours);
  if (line.help) return { kind: 'help', text: helpText(command, commanderOf(spec)) };
  if (line.version) return { kind: 'version', text: `${CAPTURE_VERSION}\n` };
  const all = withEnvironment(line.given, env, [...command.variables, ...LOG_OPTIONS]);
  const mistakes: Mistake[] = [...line.mistakes, ...all.mistakes];
  if (end !== -1 && !command.takesTask)
    mistakes.push({
      message: `${command.title} takes no task`,
      hint: `leave out -- and what stands behind it`,
    });
  const values = new Values(all.given, cwd, mistakes);
  const log = messagesOf(values);
  const carryOut = command.read({
    title: command.title,
    given: all.given,
    values,
    operands: line.operands,
    command: end === -1 ? job?.command : { kind: 'argv', argv: args.slice(end + 1) },
    args: ours,
    env,
    cwd,
    outside,
    refuse: (...found) => void mistakes.push(...found),
  });
  // A file that cannot be read leaves out what the line relies on.
  if (job !== undefined && job.mistakes.length > 0) return { kind: 'mistakes', mistakes: job.mistakes, log };
  const placed = job === undefined ? mistakes : mistakes.map(job.placed);
  return placed.length > 0 ? { kind: 'mistakes', mistakes: placed, log } : { kind: 'go', carryOut, log };
}

/** For what is left of the operands when a command has taken its own. */
export function refuseOperands(
  { title, operands, refuse }: QueueLine,
  left: readonly string[] = operands,
): void {
  for (const word of left) {
    const hint = isJobFile(word)
      ? `a job file comes first: capture submit ${showPath(word)}`
      : `${title} --help`;
    refuse({ message: `${title} takes no '${showPath(word)}'`, hint });
  }
}

/** The only operand that there must be. Undefined if it is not there: that has been refused. */
export function onlyOperand(line: QueueLine, what: string): string | undefined {
  const [first, ...rest] = line.operands;
  refuseOperands(line, rest);
  if (first === undefined) line.refuse({ message: `no ${what} is named`, hint: `${line.title} <${what}>` });
  return first;
}

function helpText(command: QueueCommand, commander: ReturnType<typeof commanderOf>): string {
  const { usage, about, statuses, examples } = command;
  return [
    `${commander.usage(usage).description(about).helpInformation().trimEnd()}\n`,
    `Exit status:
${statuses.trimEnd()}
   64  an option is wrong (nothing was done)
   69  the queue or the store cannot be used
   70  capture itself failed
`,
    `Examples:\n${examples.map((line) => `  ${line}\n`).join('')}`,
  ].join('\n');
}
