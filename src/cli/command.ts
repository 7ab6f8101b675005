// Read this first. What a command is made of: what its help says, which options it has, what a command line means to it,
// and what it does then. It has one file, or one folder, that exports one of these.
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
  /** Behind the name, if it is more than the table of commands says. */
  readonly usage?: string;
  readonly about: string;
  /** Paragraphs behind the options. */
  readonly notes?: readonly string[];
  /** What each exit status says. Those of every command (64, 70, 143) are added. */
  readonly statuses: Readonly<Record<number, string>>;
  /** Before the statuses, and behind them. */
  readonly statusNotes?: { readonly before?: string; readonly behind?: string };
  /** One command line each. */
  readonly examples: readonly string[];
}

/** A command as far as its line is read. `Request`: what it is asked to do. */
export interface CommandSpec<Request = unknown> {
  readonly name: CommandName;
  readonly help: CommandHelp;
  /** Its own, in the order of the help; those about messages are added. */
  readonly options: readonly Option[];
  /** Accepted, and neither read nor shown: one list of options serves several commands. */
  readonly idle?: readonly Option[];
  /** Options whose variables are read, too. */
  readonly variables?: readonly Option[];
  /** A task stands behind `--`, or in a job file that is the first word. */
  readonly takesTask?: true;
  /** Its words may stand behind `--`, too: a name may begin as an option does. */
  readonly wordsBehind?: true;
  /** It handles signals itself. Every other command ends well at the first one, and at once at the second. */
  readonly handlesSignals?: true;
  /** Looks at the first word, unless it is an option. A mistake that it finds is the only one that is said. */
  firstWordMistake?(word: string | undefined, hasTask: boolean): Mistake | undefined;
  /**
   * Returns what is to be done. All that is wrong goes to `line.values.refuse`: then nothing is done, and the request may be
   * undefined. It asks nobody and changes nothing.
   */
  read(line: Line): Request | undefined;
}

export interface Command<Request = unknown> extends CommandSpec<Request> {
  /** Tasks wait for its start, and it asks no store: so it loads no logger for plain messages, and prepares no md5. */
  readonly isLight?: true;
  /** It works in a directory that is gone. */
  readonly needsNoDirectory?: true;
  /** The index that each of its messages names. */
  indexOf?(request: Request): string | undefined;
  /** Does what was asked, and resolves to the exit status. Throws a CaptureError, which has a status of its own. */
  act(request: Request, tools: Tools): Promise<ExitStatus>;
}

/** A command line, as far as every command reads it in the same way. */
export interface Line extends Caller {
  /** `capture status`, for hints. */
  readonly title: string;
  /** Behind the name, up to the `--`. */
  readonly words: readonly string[];
  readonly given: GivenOptions;
  readonly values: Values;
  /** By the names that the table of commands gives them. */
  readonly operands: Readonly<Record<string, string | undefined>>;
  /** Words stood where none belongs, and have been refused. */
  readonly hasStray: boolean;
  /** What stands behind `--`, or in the job file. */
  readonly task: GivenCommand | undefined;
  readonly job: JobLine | undefined;
  /** Allowed, but probably not meant: said before it begins. */
  readonly warn: (warnings: readonly Mistake[]) => void;
}

/** What a command works with. Whoever made them closes them. */
export interface Tools {
  /** stderr: messages and progress. */
  readonly log: Log;
  /** stdout: only what was asked for. */
  readonly out: Output;
  /** Aborts at SIGINT, SIGTERM, SIGHUP, SIGQUIT and when nobody reads stdout any more. */
  readonly signal: AbortSignal;
  readonly env: NodeJS.ProcessEnv;
}
