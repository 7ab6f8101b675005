// Read this first. The parts of a command: its help, its options, how it parses its command line, and its action. Each
// command has one file or folder that exports a {@link Command}.
import type { Log } from '../log/log.ts';
import type { Mistake } from '../model/errors.ts';
import type { ExitStatus } from '../model/exit-status.ts';
import type { CommandName } from './commands.ts';
import type { JobLine } from './job/job-line.ts';
import type { GivenCommand } from './job/tasks.ts';
import type { GivenOptions, Option } from './options/spec.ts';
import type { Caller, Values } from './options/values.ts';
import type { Output } from './output.ts';

export interface CommandHelp {
  /** The usage after the name, if it differs from the table of commands. */
  readonly usage?: string;
  readonly about: string;
  /** Paragraphs after the options. */
  readonly notes?: readonly string[];
  /** The meaning of each exit status. The statuses of every command (64, 70, 143) are added. */
  readonly statuses: Readonly<Record<number, string>>;
  /** Text before and after the statuses. */
  readonly statusNotes?: { readonly before?: string; readonly behind?: string };
  /** One command line each. */
  readonly examples: readonly string[];
}

/** The part of a command that parses its line. `Request` is the result. */
export interface CommandSpec<Request = unknown> {
  readonly name: CommandName;
  readonly help: CommandHelp;
  /** Its own options, in the order of the help. The options for messages are added. */
  readonly options: readonly Option[];
  /** Accepted, but neither read nor shown, so that one list of options serves several commands. */
  readonly idle?: readonly Option[];
  /** Options that may also be set by their variables. */
  readonly variables?: readonly Option[];
  /** A task follows `--`, or is in a job file that is the first word. */
  readonly takesTask?: true;
  /** Operands may also follow `--`, because a name may start like an option. */
  readonly wordsBehind?: true;
  /**
   * The command handles signals itself. Every other command ends in order on the first signal, and at once on the
   * second.
   */
  readonly handlesSignals?: true;
  /** Checks the first word, unless it is an option. If it finds a mistake, no other one is reported. */
  firstWordMistake?(word: string | undefined, hasTask: boolean): Mistake | undefined;
  /**
   * Returns the request. Mistakes go to `line.values.refuse`; then the command does not run, and the request may be
   * undefined. Does no I/O and changes nothing.
   */
  read(line: Line): Request | undefined;
}

export interface Command<Request = unknown> extends CommandSpec<Request> {
  /**
   * Tasks wait for this command to start, and it uses no store. So it loads no logger for plain messages, and prepares
   * no md5.
   */
  readonly isLight?: true;
  /** The command works even if the current directory was removed. */
  readonly needsNoDirectory?: true;
  /** The index in each of its messages. */
  indexOf?(request: Request): string | undefined;
  /** Runs the command, and resolves to the exit status. Throws a CaptureError, which has its own status. */
  act(request: Request, tools: Tools): Promise<ExitStatus>;
}

/** The part of a command line that all commands parse in the same way. */
export interface Line extends Caller {
  /** `capture status`, for hints. */
  readonly title: string;
  /** The words after the name, up to the `--`. */
  readonly words: readonly string[];
  readonly given: GivenOptions;
  readonly values: Values;
  /** Operands by their names in the table of commands. */
  readonly operands: Readonly<Record<string, string | undefined>>;
  /** The words of the operand that may be repeated. */
  readonly repeated: readonly string[];
  /** Superfluous words were found, and reported as mistakes. */
  readonly hasStray: boolean;
  /** The command after `--`, or in the job file. */
  readonly task: GivenCommand | undefined;
  readonly job: JobLine | undefined;
  /** Warns before the start about options that are allowed, but probably a mistake. */
  readonly warn: (warnings: readonly Mistake[]) => void;
}

/** What a command works with. Its caller closes them. */
export interface Tools {
  /** stderr: messages and progress. */
  readonly log: Log;
  /** stdout: only the requested output. */
  readonly out: Output;
  /** Aborts on SIGINT, SIGTERM, SIGHUP and SIGQUIT, and when the reader of stdout is gone. */
  readonly signal: AbortSignal;
  readonly env: NodeJS.ProcessEnv;
}
