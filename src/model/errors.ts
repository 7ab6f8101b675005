// What went wrong, as a user can read it. An error carries what the exit status and the message on the terminal need:
// everything below the edge throws it, and only the edge prints it. A mistake is one thing wrong with a command line.
import { EXIT, type ExitStatus } from './exit-status.ts';

/**
 * A failure that a user can read: `message` says what failed, on what and why; `hint` says what to do. `status` is
 * the exit status of capture if nothing handles the error.
 */
export class CaptureError extends Error {
  readonly status: ExitStatus;
  readonly hint: string | undefined;

  /** By its fields: each file of the program has a class of its own (build.mjs). */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof Error && 'status' in value && 'hint' in value;
  }

  constructor(status: ExitStatus, message: string, options: { hint?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'CaptureError';
    this.status = status;
    this.hint = options.hint;
  }
}

export interface Failure {
  readonly status: ExitStatus;
  readonly message: string;
  readonly hint: string | undefined;
}

/** What the user reads of anything thrown: what is none of our own errors is a bug. */
export function failureOf(error: unknown): Failure {
  if (error instanceof CaptureError) {
    const { status, message, hint } = error;
    return { status, message, hint };
  }
  const stack = error instanceof Error ? (error.stack ?? '') : '';
  const hint = `report it as a bug, with this: ${stack.split('\n').slice(1, 4).join(' ').trim()}`;
  return { status: EXIT.internal, message: `internal error: ${reasonOf(error)}`, hint };
}

/** The text of anything thrown, without a stack. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The errno name (`ENOENT`) of a failed system call, else undefined. */
export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/**
 * One thing that is wrong with what the user asked for. Plain data: mistakes are collected and shown together, so that
 * nobody has to correct a command line one error at a time.
 */
export interface Mistake {
  /** What is wrong, and why: one line. */
  readonly message: string;
  /** What to write instead; shown after `try:`. */
  readonly hint: string;
}

/** Tells a mistake from the value that was hoped for. */
export function isMistake(value: unknown): value is Mistake {
  return typeof value === 'object' && value !== null && 'message' in value && 'hint' in value;
}
