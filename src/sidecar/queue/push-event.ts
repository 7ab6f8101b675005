// What a push has come to, as an event of its file: for results, what is half-written of them, and checkpoints alike.
// What else follows from it, such as a record or a reclaim, is the business of the one who pushed.
import { reasonOf } from '../../model/errors.ts';
import type { FileEvent } from '../../model/file/decide.ts';
import type { FileState } from '../../model/file/file-state.ts';
import { showPath } from '../../model/path.ts';
import { StoreError } from '../../store/contract/store.ts';
import type { Sent } from '../../upload/send.ts';
import type { Context } from '../run/context.ts';

/** How a push that began at `startedMs` has ended. What `exists` means the one who pushed knows. */
export function endedPush(
  sent: Exclude<Sent, { readonly kind: 'exists' }>,
  startedMs: number,
  nowMs: number,
): FileEvent {
  switch (sent.kind) {
    case 'stored': {
      const { md5, size } = sent.file;
      const durable = { fingerprint: sent.fingerprint, md5, size };
      return { kind: 'stored', durable, atMs: nowMs, tookMs: nowMs - startedMs };
    }
    case 'unchanged': {
      const { fingerprint, md5 } = sent;
      return { kind: 'unchanged', durable: { fingerprint, md5, size: fingerprint.size } };
    }
    case 'empty':
      return { kind: 'unchanged', durable: { fingerprint: sent.fingerprint, md5: '', size: 0 } };
    case 'torn':
      return { kind: 'torn', atMs: nowMs };
    case 'gone':
    case 'has-writer':
      return { kind: sent.kind };
    case 'refused':
      return sent;
  }
}

/**
 * A push that threw: the file stays pending and is tried again. The user reads of it once: of an outage of the store
 * by outage.ts, of everything else here.
 */
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
