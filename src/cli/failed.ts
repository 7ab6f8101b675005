// The edge of a program: what was thrown is said once, with what to do, and becomes the exit status.
import type { Log } from '../log/log.ts';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT, type ExitStatus } from '../model/exit-status.ts';
import { StoreError } from '../store/contract/store.ts';

export function failed(error: unknown, log: Log): ExitStatus {
  if (error instanceof CaptureError || error instanceof StoreError) {
    const status = error instanceof CaptureError ? error.status : EXIT.unavailable;
    log.error(error.message, { event: 'refused', hint: error.hint, status });
    return status;
  }
  const stack = error instanceof Error ? (error.stack ?? '') : '';
  log.error(`internal error: ${reasonOf(error)}`, {
    event: 'refused',
    hint: `report it as a bug, with this: ${stack.split('\n').slice(1, 4).join(' ').trim()}`,
    status: EXIT.internal,
  });
  return EXIT.internal;
}
