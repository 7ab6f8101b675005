// Words for what the file system refuses: the same kinds of failure as those of an object store.
import { errnoOf } from '../../model/errors.ts';
import { StoreError, type StoreErrorKind } from '../contract/store.ts';

interface Meaning {
  readonly kind: StoreErrorKind;
  readonly why: string;
  readonly hint?: string;
}

const DENIED = {
  kind: 'denied',
  why: 'permission denied',
  hint: 'check the owner and mode of the directory',
} as const;
const FULL = { kind: 'full', hint: 'make room there, or choose another store with --to' } as const;
const BUSY = { kind: 'transient', why: 'the file system does not answer' } as const;
const BACK = 'mount it again, or move it back; what is not stored stays in the work directory';
const CLASH = { kind: 'refused', why: 'one key is both an object and the folder of another' } as const;

/** errno(3); the transient ones are those of network file systems. */
const BY_ERRNO: Readonly<Record<string, Meaning>> = {
  EACCES: DENIED,
  EPERM: DENIED,
  EROFS: { kind: 'denied', why: 'the file system is mounted read-only' },
  ENOSPC: { ...FULL, why: 'no space left' },
  EDQUOT: { ...FULL, why: 'the disk quota is used up' },
  EFBIG: {
    kind: 'full',
    why: 'the limit of the size of a file is reached (ulimit -f)',
    hint: 'raise it: ulimit -f unlimited',
  },
  EIO: BUSY,
  ESTALE: BUSY,
  ETIMEDOUT: BUSY,
  EAGAIN: BUSY,
  EBUSY: BUSY,
  EISDIR: CLASH,
  ENOTDIR: CLASH,
  EEXIST: CLASH,
};

/** The store's error for a failed system call; anything else comes back as it is (the body's own error). */
export function fileFailure(error: unknown, operation: string, where: string): unknown {
  if (error instanceof StoreError && error.kind === 'lost') {
    const message = `${operation} ${where}: the store is not there any more: ${error.message}`;
    return new StoreError('lost', message, { hint: BACK, cause: error });
  }
  const errno = errnoOf(error);
  if (error instanceof StoreError || errno === undefined || !/^E[A-Z]+$/.test(errno)) return error;
  const { kind, why, hint } = BY_ERRNO[errno] ?? { kind: 'refused', why: 'the file system refused it' };
  return new StoreError(kind, `${operation} ${where}: ${why} (${errno})`, { hint, cause: error });
}
