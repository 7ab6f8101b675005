// Why a request failed, in the words of a store: what happened, whether a retry can help, and what the user can do.
import { reasonOf } from '../../model/errors.ts';
import { StoreError, type StoreErrorKind } from '../contract/store.ts';
import { Dropped, Refused, type Session, STATUS } from './session.ts';

interface Meaning {
  readonly kind: StoreErrorKind;
  readonly why: string;
  readonly hint?: string;
}

/** Below this, a write that fails without a reason fails for want of room. */
const ROOM_BYTES = 2 ** 20;

const BY_STATUS: Readonly<Record<number, Meaning>> = {
  [STATUS.missing]: { kind: 'transient', why: 'a file or directory was removed meanwhile' },
  [STATUS.denied]: {
    kind: 'denied',
    why: 'permission denied',
    hint: 'check the owner and mode of the directory on the server',
  },
  // EINVAL and ENAMETOOLONG (sftp-server.c, errno_to_portable).
  [STATUS.badMessage]: { kind: 'impossible', why: 'a part of the key is longer than the server takes' },
  [STATUS.unsupported]: { kind: 'refused', why: 'the server cannot do it' },
  // All other errors: a disk that fails, a quota.
  [STATUS.failure]: {
    kind: 'transient',
    why: 'the server failed',
    hint: 'look for a quota, a full disk or a failing one on the server',
  },
};

export interface Attempted {
  /** What was done, on what. */
  readonly operation: string;
  readonly session: Session | undefined;
  /** The directory of the store. */
  readonly at: string;
}

/** The store's error for a failure. Errors that are not of the server are returned unchanged. */
export async function failureFor(error: unknown, { operation, session, at }: Attempted): Promise<unknown> {
  if (error instanceof StoreError) return error;
  if (error instanceof Dropped)
    return new StoreError('transient', `${operation}: the connection broke (${reasonOf(error)})`, {
      cause: error,
    });
  if (!(error instanceof Refused)) return error;
  const isFull = error.status === STATUS.failure && (await lacksRoom(session, at));
  const meaning: Meaning = isFull
    ? { kind: 'full', why: 'no space left', hint: 'make room there, or choose another store with --to' }
    : (BY_STATUS[error.status] ?? { kind: 'refused', why: 'the server refused it' });
  const { kind, why, hint } = meaning;
  return new StoreError(kind, `${operation}: ${why} (${error.message})`, { hint, cause: error });
}

async function lacksRoom(session: Session | undefined, at: string): Promise<boolean> {
  const free = await session?.freeBytes(at).catch(() => undefined);
  return free !== undefined && free < ROOM_BYTES;
}
