// What a push that threw means: the file stays pending and is tried again. The user reads of it once: of an
// outage of the store by outage.ts, of everything else here.
import { reasonOf } from '../../model/errors.ts';
import type { FileEvent } from '../../model/file/decide.ts';
import type { FileState } from '../../model/file/file-state.ts';
import { showPath } from '../../model/path.ts';
import { StoreError } from '../../store/contract/store.ts';
import type { Context } from '../run/context.ts';

export function failedPush(
  { log, outage, now }: Context,
  { path, failedTries }: FileState,
  error: unknown,
  givenUp: AbortSignal,
): FileEvent {
  const why = reasonOf(error);
  const isTold = failedTries > 0 || (error instanceof StoreError && outage.isKnown);
  if (!isTold && !givenUp.aborted) {
    const hint = error instanceof StoreError ? error.hint : undefined;
    log.warn(`${showPath(path)} is not stored yet, and is tried again: ${why}`, {
      event: 'not-stored',
      path,
      hint,
    });
  }
  return { kind: 'failed', why, atMs: now() };
}
