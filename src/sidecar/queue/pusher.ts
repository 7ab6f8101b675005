// What files.ts and those who push for it tell each other: what to push, and how the push ended. Other consequences,
// such as a record or a reclaim, are left to the one who pushed.
import { reasonOf } from '../../model/errors.ts';
import type { FileEvent } from '../../model/file/decide.ts';
import type { Evidence } from '../../model/file/evidence.ts';
import type { FileRole, FileState, Fingerprint } from '../../model/file/file-state.ts';
import type { Paths } from '../../model/packed/packed-map.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { StoreError } from '../../store/contract/store.ts';
import type { Sent } from '../../upload/send.ts';
import type { Needs } from '../run/context.ts';

/** What it takes of the run. */
type Uses = Needs<'log' | 'outage' | 'now'>;

/** Stands for one file in one role. A number, because there may be very many. */
export type FileKey = number;

/** What a push needs to know of this run, and tells it. */
export interface PushHandle {
  /** It was torn once: copy it to the spool first. */
  readonly spoolFirst: boolean;
  /** Aborts when the push is given up, or the sidecar gives everything up. */
  readonly signal: AbortSignal;
  /** The store has so many bytes more. */
  readonly onSent: (bytes: number) => void;
}

/** Carries out one push of a file and says how it ended. Never throws because of a state of the file. */
export type Pusher = (fileState: FileState, how: PushHandle) => Promise<FileEvent>;

/** What is known of a close beside its path and time. */
export interface KnownOfClose {
  /** For what a scan saw: a state that is known already is no close. */
  readonly fingerprint?: Fingerprint | undefined;
  /** `unknown` if it is left out. */
  readonly evidence?: Evidence;
}

export interface FilesOptions {
  /** Shared with what else is known by path. */
  readonly paths?: Paths;
  readonly push: Pusher;
  readonly rolesOf: (path: RelPath) => readonly FileRole[];
  readonly replaces: (path: RelPath) => boolean;
  /** Size of the local file in bytes; 0 if it is gone. */
  readonly sizeOf: (path: RelPath) => number;
  readonly now: () => number;
}

/** One change of a file state. */
export interface FileChange {
  readonly fileState: FileState;
  readonly before: FileState;
  /** What has changed it; undefined for what was there before the task started. */
  readonly event: FileEvent | undefined;
}

/** How a push that began at `startedMs` has ended. Only the one who pushed knows what `exists` means. */
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
 * A push that threw: the file stays pending and is tried again. The user is told once: by outage.ts if the store is
 * out of service, else here.
 */
export function failedPush(
  { log, outage, now }: Uses,
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
