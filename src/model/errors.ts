// The one error of the project: it carries what the exit status and the message on the terminal need. Everything
// below the edge throws it; only the edge prints it.
import type { ExitStatus } from './exit-status.ts';

/**
 * A failure that a user can read: `message` says what failed, on what and why; `hint` says what to do. `status` is
 * the exit status of capture if nothing handles the error.
 */
export class CaptureError extends Error {
  readonly status: ExitStatus;
  readonly hint: string | undefined;

  /** Compares names: each file of the program has a class of its own (build.mjs). */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof Error && value.name === 'CaptureError';
  }

  constructor(status: ExitStatus, message: string, options: { hint?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'CaptureError';
    this.status = status;
    this.hint = options.hint;
  }
}

/** The text of anything thrown, without a stack. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The errno name (`ENOENT`) of a failed system call, else undefined. */
export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
