// Errors as a user reads them. An error carries its exit status and its message for the terminal. Everything below the
// edge throws it, and only the edge prints it. A mistake is one thing wrong with a command line.
import { EXIT, type ExitStatus } from './exit-status.ts';

/**
 * A failure that a user can read. `message` says what failed, on what and why; `hint` says what to do. `status` is the
 * exit status of capture if nothing handles the error.
 */
export class CaptureError extends Error {
  readonly status: ExitStatus;
  readonly hint: string | undefined;

  /**
   * Compares fields, because each file of the program has its own copy of this class (build.mjs). Each class below it needs
   * a comparison of its own.
   */
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

/** What to do if a file of the program or a binary is missing or damaged. */
export const REINSTALL = 'install capture again on this machine: npm ci, or npm install --global';

/** Node's codes if a file of a program is missing: somebody has copied or deleted a part of the installation. */
const INCOMPLETE = new Set<string | undefined>(['MODULE_NOT_FOUND', 'ERR_MODULE_NOT_FOUND']);

/** The text for the user of anything thrown. An error that is not ours is a bug, unless a file of ours is missing. */
export function failureOf(error: unknown): Failure {
  if (error instanceof CaptureError) {
    const { status, message, hint } = error;
    return { status, message, hint };
  }
  if (INCOMPLETE.has(errnoOf(error))) {
    const [missing = ''] = reasonOf(error).split(/ imported from |\n/);
    return { status: EXIT.internal, message: `the installation is incomplete: ${missing}`, hint: REINSTALL };
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

/** The error of a system call, with what failed before its text, and with its `code`. */
export function withReason(what: string, cause: unknown): Error {
  return Object.assign(new Error(`${what}: ${reasonOf(cause)}`, { cause }), { code: errnoOf(cause) });
}

/** No space, no inode, no quota: the fault lies with the node, not with the command line. */
export function isFull(error: unknown): boolean {
  const isCause = error instanceof CaptureError && isFull(error.cause);
  return isCause || ['ENOSPC', 'EDQUOT'].includes(errnoOf(error) ?? '');
}

/** A server was too slow: as the system says it of a connection, ETIMEDOUT (connect(2)). */
export function timedOut(message: string): Error & { readonly code: 'ETIMEDOUT' } {
  return Object.assign(new Error(message), { code: 'ETIMEDOUT' as const });
}

/**
 * One thing that is wrong with what the user asked for. Plain data: capture collects mistakes and shows them together,
 * so nobody corrects a command line one error at a time.
 */
export interface Mistake {
  /** What is wrong, and why: one line. */
  readonly message: string;
  /** What to write instead; shown after `try:`. */
  readonly hint: string;
}

/** Tells a mistake from a parsed value. */
export function isMistake(value: unknown): value is Mistake {
  return typeof value === 'object' && value !== null && 'message' in value && 'hint' in value;
}
