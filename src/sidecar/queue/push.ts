// One push of a file, and how it ended, for files.ts. A checkpoint gets an object of its own. A result gets its own
// key, or one beside it while its close may come from a dying process. The sender takes care of other consequences,
// such as a record or a reclaim.
import { errnoOf, reasonOf } from '../../model/errors.ts';
import type { FileEvent } from '../../model/file/decide.ts';
import type { FileState } from '../../model/file/file-state.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { StoreError } from '../../store/contract/store.ts';
import type { Sent } from '../../upload/send.ts';
import type { Context, Needs } from '../run/context.ts';
import type { Pusher } from './files.ts';
import type { PushHandle } from './turns.ts';

/** Sends a file in its current state, and notes the outcome. Throws the store's errors. */
interface Sends {
  push(fileState: FileState, how: PushHandle): Promise<Sent>;
}

export interface PushParts {
  readonly context: Context;
  readonly checkpoints: Sends;
  readonly results: Sends;
}

export function pusherOf({ context, checkpoints, results }: PushParts): Pusher {
  const unread = new Unread();
  return async (fileState, how) => {
    const startedMs = context.now();
    const progress = context.progress.file();
    const onSent = (bytes: number): void => {
      how.onSent(bytes);
      progress.moved(bytes);
    };
    const handle = { ...how, onSent };
    try {
      const sent =
        fileState.role === 'checkpoint'
          ? await checkpoints.push(fileState, handle)
          : await results.push(fileState, handle);
      unread.readAgain(fileState.path);
      const event = endedPush(sent, { startedMs, nowMs: context.now() });
      if (event.kind === 'stored' || event.kind === 'unchanged') progress.done(event.durable.size);
      return event;
    } catch (error) {
      const isKnown = unread.isKnown(fileState.path, error);
      return failedPush(context, fileState, error, { isKnown, givenUp: how.signal });
    } finally {
      progress.failed();
    }
  };
}

/** How a push of this state has ended. */
export function endedPush(
  sent: Sent,
  { startedMs, nowMs }: { readonly startedMs: number; readonly nowMs: number },
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
    case 'torn':
      return { kind: 'torn', atMs: nowMs };
    case 'gone':
    case 'has-writer':
      return { kind: sent.kind };
    case 'refused':
      return sent;
    case 'replaced-meanwhile':
      return { kind: 'failed', why: 'another object stands under its key by now', atMs: nowMs };
    case 'exists':
    case 'staged':
      // Only for a checkpoint. A dead sidecar of this attempt sent the object, or it belongs to another task: `a.b` of
      // `c` and `a` of `b.c` have the same key.
      return { kind: 'failed', why: 'an object stands under its key', atMs: nowMs };
  }
}

/**
 * A push that threw: the file stays pending and is retried. The user gets one message: from run/outage.ts if the store
 * is out of service, else from here.
 */
function failedPush(
  { log, outage, now }: Needs<'log' | 'outage' | 'now'>,
  { path, failedTries }: FileState,
  error: unknown,
  { isKnown, givenUp }: { readonly isKnown: boolean; readonly givenUp: AbortSignal },
): FileEvent {
  const why = reasonOf(error);
  const isTold = isKnown || failedTries > 0 || (error instanceof StoreError && outage.isKnown);
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

/** Files that cannot be read now. All files of a dead mount give one error: only the first is worth a message. */
class Unread {
  readonly #byErrno = new Map<string, Set<RelPath>>();

  /** True if another file fails for the same reason, and was named for it. */
  isKnown(path: RelPath, error: unknown): boolean {
    const errno = error instanceof StoreError ? undefined : errnoOf(error);
    if (errno === undefined) return false;
    const paths = this.#byErrno.get(errno) ?? new Set();
    this.#byErrno.set(errno, paths);
    const isFirst = paths.size === 0;
    paths.add(path);
    return !isFirst;
  }

  readAgain(path: RelPath): void {
    for (const paths of this.#byErrno.values()) paths.delete(path);
  }
}
