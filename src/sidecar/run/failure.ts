// What is said when nothing could be started.
import { CaptureError, reasonOf } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { FencedError } from '../../records/claim.ts';
import { StoreError } from '../../store/contract/store.ts';

export interface Failure {
  readonly status: ExitStatus;
  readonly message: string;
  readonly hint: string | undefined;
}

export function describeFailure(error: unknown): Failure {
  if (error instanceof CaptureError)
    return { status: error.status, message: error.message, hint: error.hint };
  if (error instanceof FencedError)
    return { status: EXIT.fenced, message: error.message, hint: 'do not run it again' };
  if (error instanceof StoreError)
    return { status: EXIT.unavailable, message: error.message, hint: error.hint };
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return {
    status: EXIT.internal,
    message: `capture failed before the task was started: ${reasonOf(error)}`,
    hint: `this is a bug, please report it: ${stack.split('\n').slice(1, 4).join(' ').trim()}`,
  };
}
