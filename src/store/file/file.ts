// The driver for a directory: a shared file system, or a disk to try things on. Each operation is tried again while that
// makes sense, and what the file system refuses is said in the words of an object store.
import fs from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import pLimit, { type LimitFunction } from 'p-limit';
import { errnoOf } from '../../model/errors.ts';
import type { StoreSettings } from '../../model/format/settings.ts';
import { reached } from '../../native/failpoint.ts';
import { shareOfOpenFiles } from '../../native/processes.ts';
import { retrying } from '../contract/driver.ts';
import {
  StoreError,
  isLost,
  type ListedObject,
  type ObjectMeta,
  type OnTry,
  type PromoteOptions,
  type PutOptions,
  type PutOutcome,
  type Store,
  type StoreErrorKind,
  type StoreUse,
} from '../contract/store.ts';
import { dropMeta, inFolder, layoutOf, StoreRoot, syncDirectory, type Layout } from './directory.ts';
import {
  getFile,
  headFile,
  listFileFolders,
  listFiles,
  promoteFile,
  putFile,
  sweepTemporaries,
} from './objects.ts';

/** As many as a run sends at once (sidecar/run/places). */
const MOST_SMALL_PUTS = 32;

/** What each operation is for; their names stand in messages. */
const USES = {
  get: 'read',
  head: 'read',
  list: 'read',
  put: 'write',
  delete: 'remove',
  sweep: 'remove',
} as const satisfies Readonly<Record<string, StoreUse>>;

/**
 * Opens `file:///dir`; the first put makes the directory, and none makes it anew. A `list` is not retried: it is cheap
 * to ask again.
 */
export async function openFileStore(
  settings: StoreSettings,
  budgetMs: number,
  { onTry }: { readonly onTry?: OnTry } = {},
): Promise<Store> {
  const root = fileURLToPath(settings.url).replace(/(?<=.)\/+$/, '');
  const directory = new StoreRoot(root);
  const layout = layoutOf(root, directory);
  const inTurn = pLimit(shareOfOpenFiles(MOST_SMALL_PUTS));
  const place = { layout, directory, budgetMs, inTurn, onTry };
  const store: Store = {
    url: `file://${root}`,
    createsAtomically: true,
    listsByPage: false,
    // rename(2) knows no condition.
    replacesAtomically: async () => false,
    put: (key, body, options) => put(place, key, body, options),
    get: (key, options = {}) =>
      request(place, { verb: 'get', key, signal: options.signal }, () => getFile(layout, key, options)),
    head: (key, signal) => request(place, { verb: 'head', key, signal }, () => headFile(layout, key)),
    list: (prefix, signal) => list(place, prefix, signal),
    folders: (prefix, signal) =>
      request(place, { verb: 'list', key: prefix, signal }, () => listFileFolders(layout, prefix)),
    delete: async (keys, signal) => {
      for (const key of keys)
        await request(place, { verb: 'delete', key, signal }, () => remove(layout, key));
    },
    copy: (from, to, signal) => copy(store, place, { from, to, signal }),
    promote: (from, to, options = {}) => promote(place, from, to, options),
    sweep: (prefix, mine, signal) =>
      request(place, { verb: 'sweep', key: prefix, signal }, () =>
        sweepTemporaries(layout, prefix, mine, signal),
      ),
    confirm: () =>
      directory.check().catch(async (error: unknown) => {
        throw await whyOf(place, 'look for', '', error);
      }),
    access: async () => undefined,
    close: () => directory.close(),
  };
  return store;
}

interface Place {
  readonly layout: Layout;
  readonly directory: StoreRoot;
  readonly budgetMs: number;
  /** Small puts at the same time: each has some files open. */
  readonly inTurn: LimitFunction;
  readonly onTry: OnTry | undefined;
}

interface RequestOptions {
  readonly verb: keyof typeof USES;
  readonly key: string;
  readonly signal?: AbortSignal | undefined;
  /** Instead of the store's. */
  readonly budgetMs?: number;
}

/** Does one operation, and again while that makes sense; throws a {@link StoreError}, or the signal's reason. */
function request<T>(place: Place, options: RequestOptions, work: () => Promise<T>): Promise<T> {
  const { verb, key, signal, budgetMs = place.budgetMs } = options;
  const attempt = async (): Promise<T> => {
    try {
      await place.directory.check();
      const answer = await work();
      // If another directory stands there now, what we found or wrote may be in that one.
      await place.directory.check();
      return answer;
    } catch (error) {
      throw await whyOf(place, verb, key, error);
    }
  };
  return retrying(attempt, { budgetMs, signal, onTry: (error) => place.onTry?.(USES[verb], error) });
}

async function put(
  place: Place,
  key: string,
  body: Uint8Array | AsyncIterable<Uint8Array>,
  options: PutOptions,
): Promise<PutOutcome> {
  const ask = { verb: 'put' as const, key, signal: options.signal };
  if (body instanceof Uint8Array) {
    // Until it is stored it may have to be written once more: a try that has written it must not give it away.
    const once = { ...options, release: undefined };
    return request(place, ask, () => place.inTurn(() => putInto(place, key, [body], once)));
  }
  /** The body's own: the caller's error, not the store's. */
  const failures: unknown[] = [];
  const chunks = async function* (): AsyncGenerator<Uint8Array> {
    try {
      yield* body;
    } catch (error) {
      failures.push(error);
      throw error;
    }
  };
  try {
    // A body that was read in part cannot be read again: one try.
    return await request(place, { ...ask, budgetMs: 0 }, () => putInto(place, key, chunks(), options));
  } catch (error) {
    throw failures.length > 0 ? failures[0] : error;
  }
}

async function putInto(
  { layout, directory }: Place,
  key: string,
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  options: PutOptions,
): Promise<PutOutcome> {
  await directory.make();
  const outcome = await putFile(layout, key, body, options);
  return outcome.kind === 'stored' ? outcome : unlessOurs(layout, key, options.meta, outcome);
}

/** It is ours if the directory was gone for a moment after we wrote it, so that the write was tried again. */
async function unlessOurs(
  layout: Layout,
  key: string,
  { push }: ObjectMeta,
  outcome: PutOutcome,
): Promise<PutOutcome> {
  const there = await headFile(layout, key);
  return there !== undefined && push !== undefined && there.meta['push'] === push
    ? { kind: 'stored', tag: there.tag }
    : outcome;
}

/** What a try before has renamed is not under its old name any more: hence the look before the first one. */
async function promote(
  place: Place,
  from: string,
  to: string,
  { precondition, signal }: PromoteOptions,
): Promise<PutOutcome> {
  const { layout } = place;
  const source = await request(place, { verb: 'head', key: from, signal }, () => headFile(layout, from));
  const missing = `promote ${layout.root}/${from}: there is no such object`;
  if (source === undefined) throw new StoreError('missing', missing);
  return request(place, { verb: 'put', key: to, signal }, async () => {
    const outcome = await promoteFile(layout, { from, to, precondition });
    if (outcome?.kind === 'stored') return outcome;
    const now = await unlessOurs(layout, to, source.meta, outcome ?? { kind: 'exists' });
    if (outcome === undefined && now.kind !== 'stored') throw new StoreError('missing', missing);
    return now;
  });
}

async function* list(
  place: Place,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<ListedObject> {
  try {
    await place.directory.check();
    yield* listFiles(place.layout, prefix, signal);
    await place.directory.check();
  } catch (error) {
    const why = await whyOf(place, 'list', prefix, error);
    if (why instanceof StoreError) place.onTry?.(USES.list, why);
    throw why;
  }
  place.onTry?.(USES.list, undefined);
}

async function remove(layout: Layout, key: string): Promise<void> {
  try {
    await inFolder(layout, layout.spotOf(key), async (path, at) => {
      const stat = await fs.lstat(path, { bigint: true });
      // Anything else is no object, and not ours to remove.
      if (!stat.isFile() && !stat.isSymbolicLink()) return;
      await fs.unlink(path);
      reached('file-delete.unlinked');
      await syncDirectory(at);
      await dropMeta(layout, key, stat.ino);
    });
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ENOTDIR') throw error;
  }
}

interface Copy {
  readonly from: string;
  readonly to: string;
  readonly signal: AbortSignal | undefined;
}

async function copy(store: Store, place: Place, { from, to, signal }: Copy): Promise<void> {
  const { layout } = place;
  const source = await request(place, { verb: 'get', key: from, signal }, () =>
    getFile(layout, from, { signal }, 'refused'),
  );
  if (source === undefined)
    throw new StoreError('missing', `copy ${layout.root}/${from}: there is no such object`);
  try {
    await store.put(to, source.body, { meta: source.meta, signal });
  } finally {
    await source.body[Symbol.asyncIterator]().return?.();
  }
}

/** The store's error for a failure. If the directory is gone, that is why, whatever failed. */
async function whyOf(
  { layout, directory }: Place,
  verb: string,
  key: string,
  error: unknown,
): Promise<unknown> {
  const where = `${layout.root}/${key}`;
  try {
    await directory.check();
  } catch (reason) {
    if (isLost(reason)) return fileFailure(reason, verb, where);
  }
  return fileFailure(error, verb, where);
}

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
const CLASH = { kind: 'impossible', why: 'one key is both an object and the folder of another' } as const;

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
  ELOOP: {
    kind: 'impossible',
    why: 'a link, or what is no file, stands under its key or in place of a folder, and is not followed',
    hint: 'find out who has put it there, and remove it',
  },
  ENAMETOOLONG: { kind: 'impossible', why: 'a part of the key is longer than the file system takes' },
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
