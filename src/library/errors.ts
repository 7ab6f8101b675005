// Why capture has not done what the library was asked for: one class for each exit status that capture itself has.
import { CaptureError, type Mistake } from '../model/errors.ts';
import { EXIT, type ExitStatus } from '../model/exit-status.ts';

function hasStatus(value: unknown, ...statuses: readonly ExitStatus[]): boolean {
  return value instanceof CaptureError && statuses.includes(value.status);
}

/** 1: `gather` was to bring all, and not all indices are done. */
export class IncompleteError extends CaptureError {
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasStatus(value, 1);
  }
}

/** 64: a setting is wrong, or the work directory cannot be used; nothing was started. */
export class UsageError extends CaptureError {
  /** All that is wrong. Message and hint of the error are those of the first. */
  readonly mistakes: readonly Mistake[];

  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasStatus(value, EXIT.usage);
  }

  constructor(mistakes: readonly [Mistake, ...Mistake[]]) {
    const [{ message, hint }, ...others] = mistakes;
    const more = others.length === 0 ? '' : ` (and ${others.length} more)`;
    super(EXIT.usage, message + more, { hint });
    this.name = 'UsageError';
    this.mistakes = mistakes;
  }
}

/** 66: nothing is stored there, or an input is neither here nor in the store. */
export class MissingError extends CaptureError {
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasStatus(value, EXIT.inputMissing);
  }
}

/** 69: the store or the work directory cannot be used, or no recorded checkpoint can be restored. */
export class UnavailableError extends CaptureError {
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasStatus(value, EXIT.unavailable);
  }
}

/** 76: another attempt has the index. */
export class FencedError extends CaptureError {
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasStatus(value, EXIT.fenced);
  }
}

/** 126, 127: the task's program cannot be executed, or does not exist. */
export class ProgramError extends CaptureError {
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasStatus(value, EXIT.notExecutable, EXIT.notFound);
  }
}

const CLASSES: ReadonlyMap<ExitStatus, typeof CaptureError> = new Map([
  [1, IncompleteError],
  [EXIT.inputMissing, MissingError],
  [EXIT.unavailable, UnavailableError],
  [EXIT.fenced, FencedError],
  [EXIT.notExecutable, ProgramError],
  [EXIT.notFound, ProgramError],
]);

/** The error of that status; a {@link CaptureError} if no class is more precise. */
export function errorOf(
  status: ExitStatus,
  mistakes: readonly [Partial<Mistake>, ...Partial<Mistake>[]],
): CaptureError {
  const [{ message = '', hint = '' }] = mistakes;
  if (status === EXIT.usage) return new UsageError([{ message, hint }, ...mistakes.slice(1).map(asMistake)]);
  const Class = CLASSES.get(status) ?? CaptureError;
  const error = new Class(status, message, hint === '' ? {} : { hint });
  error.name = Class.name;
  return error;
}

function asMistake({ message = '', hint = '' }: Partial<Mistake>): Mistake {
  return { message, hint };
}
