// What a command on an array is made of. `main` reads its command line and carries it out; all of a command's own is in
// one folder, and one line in commands.ts.
import type { ExitStatus } from '../model/exit-status.ts';
import type { Option } from '../cli/options/spec.ts';
import type { Values } from '../cli/options/values.ts';
import type { Log } from '../log/log.ts';
import { showPath } from '../model/path.ts';
import type { Output } from './output.ts';

/** The texts of a command's help. */
export interface CommandHelp {
  /** Options without which it does nothing, for its first line. */
  readonly required?: string;
  readonly about: string;
  /** Each line begins with the number: `    0  all are done`. Those that all commands share are added. */
  readonly statuses: string;
  /** One command line each. */
  readonly examples: readonly string[];
}

export interface ArrayCommand {
  readonly help: CommandHelp;
  /** Its own; those of all commands (the store, messages, --help) are added. */
  readonly options: readonly Option[];
  /** In place of those of the store: options that mean what they mean to a run, so that their variables are read, too. */
  readonly shared?: readonly Option[];
  /**
   * Reads what was given. What is wrong goes to `line.refuse`, all of it at once: then nothing is carried out. It asks
   * nobody and sends nothing.
   */
  readonly read: (line: Line) => CarryOut;
}

/**
 * Does what was asked, and resolves to the exit status: 0 if what was asked is so (all done, complete, whole), 1 if it
 * is not. Throws a CaptureError for every other status; a StoreError becomes 69.
 */
export type CarryOut = (tools: Tools) => Promise<ExitStatus>;

/** A command line, with the options and operands that it has. */
export interface Line {
  /** `capture status`, for hints. */
  readonly title: string;
  readonly values: Values;
  /** What is no option, without the `<url>`, which {@link readPlace} takes. */
  readonly operands: readonly string[];
  /** The `<url>`: the first operand, or else CAPTURE_TO. */
  readonly url: { readonly text: string; readonly source: string } | undefined;
  readonly cwd: string;
  readonly refuse: (message: string, hint: string) => void;
}

/** For what is left of the operands when a command has taken its own. */
export function refuseOperands({ title, operands, refuse }: Line, left: readonly string[] = operands): void {
  for (const word of left) refuse(`${title} takes no '${showPath(word)}'`, `${title} --help`);
}

/** What a command works with. Whoever made them closes them. */
export interface Tools {
  /** stderr: messages and progress. */
  readonly log: Log;
  /** stdout: only what was asked for. */
  readonly out: Output;
  /** Aborts at SIGINT, SIGTERM, SIGHUP, SIGQUIT and when nobody reads stdout any more. */
  readonly signal: AbortSignal;
}
