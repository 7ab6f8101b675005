// The driver for a directory: a shared file system, or a local disk for trials. It retries operations where that helps,
// and translates errors of the file system into those of an object store.
import fs from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import pLimit, { type LimitFunction } from 'p-limit';
import { errnoOf } from '../../model/errors.ts';
import type { StoreSettings } from '../../model/format/settings.ts';
import { reached } from '../../native/failpoint.ts';
import { orGivenUp } from '../../native/given-up.ts';
import { shareOfOpenFiles } from '../../native/processes.ts';
import { retrying } from '../contract/driver.ts';
import {
  StoreError,
  isLost,
  type GetOptions,
  type GotObject,
  type ListedObject,
  type ObjectMeta,
  type OnTry,
  type PromoteOptions,
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
  type FilePutOptions,
  sweepTemporaries,
} from './objects.ts';

/** As many as a run sends concurrently (sidecar/run/places). */
const MOST_SMALL_PUTS = 32;

/** The purpose of each operation; the names appear in messages. */
const USES = {
  get: 'read',
  head: 'read',
  list: 'read',
  put: 'write',
  delete: 'remove',
  sweep: 'remove',
} as const satisfies Readonly<Record<string, StoreUse>>;

/**
 * Opens `file:///dir`. The first put creates the directory; no put recreates it. A `list` is not retried, because the
 * caller can cheaply repeat it.
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
  const place = { layout, directory, budgetMs, inTurn, onTry, givenUp: new Map<string, Promise<void>>() };
  return {
    url: `file://${root}`,
    createsAtomically: true,
    listsByPage: false,
    // rename(2) has no conditions.
    replacesAtomically: async () => false,
    put: (key, body, options) => put(place, key, body, options),
    get: (key, options = {}) => get(place, key, options),
    head: (key, signal) => request(place, { verb: 'head', key, signal }, () => headFile(layout, key)),
    list: (prefix, signal) => inSteps(list(place, prefix, signal), signal),
    folders: (prefix, signal) =>
      request(place, { verb: 'list', key: prefix, signal }, () => listFileFolders(layout, prefix)),
    delete: async (keys, signal) => {
      for (const key of keys)
        await request(place, { verb: 'delete', key, signal }, () => remove(layout, key, signal));
    },
    copy: (from, to, signal) => copy(place, { from, to, signal }),
    promote: (from, to, options = {}) => promote(place, from, to, options),
    sweep: (prefix, mine, signal) =>
      request(place, { verb: 'sweep', key: prefix, signal }, () =>
        sweepTemporaries(layout, prefix, mine, signal),
      ),
    confirm: (signal) => orGivenUp(confirm(place), signal),
    access: async () => undefined,
    close: () => directory.close(),
  };
}

interface OpenDirectory {
  readonly layout: Layout;
  readonly directory: StoreRoot;
  readonly budgetMs: number;
  /** Limits concurrent small puts, because each has some files open. */
  readonly inTurn: LimitFunction;
  readonly onTry: OnTry | undefined;
  /** By key: writes that were given up, and have not ended yet. */
  readonly givenUp: Map<string, Promise<void>>;
}

interface RequestOptions {
  readonly verb: keyof typeof USES;
  readonly key: string;
  readonly signal?: AbortSignal | undefined;
  /** Replaces the store's budget. */
  readonly budgetMs?: number;
}

/**
 * Runs one operation, with retries where they help. Throws a {@link StoreError}, or the signal's reason. `late` gets what
 * the file server answers after that.
 */
async function request<T>(
  place: OpenDirectory,
  options: RequestOptions,
  work: () => Promise<T>,
  late?: (answer: T) => void,
): Promise<T> {
  const { verb, key, signal, budgetMs = place.budgetMs } = options;
  const attempt = async (): Promise<T> => {
    try {
      await place.directory.check();
      const answer = await work();
      // If another directory is there now, our reads and writes may have gone to that one.
      await place.directory.check();
      return answer;
    } catch (error) {
      throw await whyOf(place, verb, key, error);
    }
  };
  const onTry = (error: StoreError | undefined): void => {
    if (signal?.aborted !== true) place.onTry?.(USES[verb], error);
  };
  // A write that was given up may still take place: not after a later one of the same key.
  const earlier = place.givenUp.get(key);
  const answer = (async () => {
    await earlier;
    return retrying(attempt, { budgetMs, signal, onTry });
  })();
  try {
    return await orGivenUp(answer, signal, late);
  } catch (error) {
    if (signal?.aborted === true && USES[verb] !== 'read') keepGivenUp(place.givenUp, key, answer);
    throw error;
  }
}

function keepGivenUp(givenUp: OpenDirectory['givenUp'], key: string, answer: Promise<unknown>): void {
  const ended = answer.then(
    () => undefined,
    () => undefined,
  );
  givenUp.set(key, ended);
  void ended.then(() => givenUp.get(key) === ended && givenUp.delete(key));
}

async function get(place: OpenDirectory, key: string, options: GetOptions): Promise<GotObject | undefined> {
  const { signal } = options;
  const work = (): Promise<GotObject | undefined> => getFile(place.layout, key, options);
  const got = await request(place, { verb: 'get', key, signal }, work, closeUnread);
  return got && { ...got, body: inSteps(got.body, signal) };
}

/** Nobody reads it any more. */
function closeUnread(got: GotObject | undefined): void {
  got?.body[Symbol.asyncIterator]()
    .return?.()
    .catch(() => undefined);
}

/** The same items. Once the signal aborts, nobody waits for the next one, or for the end. */
function inSteps<T>(items: AsyncIterable<T>, signal: AbortSignal | undefined): AsyncIterableIterator<T> {
  const from = items[Symbol.asyncIterator]();
  const close = async (): Promise<void> => void (await from.return?.());
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next: () => orGivenUp(from.next(), signal, () => void close().catch(() => undefined)),
    return: async () => {
      await orGivenUp(close(), signal).catch((error: unknown) => {
        if (signal?.aborted !== true) throw error;
      });
      return { done: true, value: undefined };
    },
  };
}

async function confirm(place: OpenDirectory): Promise<void> {
  try {
    await place.directory.check();
  } catch (error) {
    throw await whyOf(place, 'look for', '', error);
  }
}

async function put(
  place: OpenDirectory,
  key: string,
  body: Uint8Array | AsyncIterable<Uint8Array>,
  options: FilePutOptions,
): Promise<PutOutcome> {
  const ask = { verb: 'put' as const, key, signal: options.signal };
  if (body instanceof Uint8Array) {
    // A retry must be able to write the body again, so no try may release its chunks.
    const once = { ...options, release: undefined };
    return request(place, ask, () => place.inTurn(() => putInto(place, key, [body], once)));
  }
  /** Errors of the body itself: they belong to the caller, not to the store. */
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
    // A partly read body cannot be read again, so there is only one try.
    return await request(place, { ...ask, budgetMs: 0 }, () => putInto(place, key, chunks(), options));
  } catch (error) {
    throw failures.length > 0 ? failures[0] : error;
  }
}

async function putInto(
  { layout, directory }: OpenDirectory,
  key: string,
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  options: FilePutOptions,
): Promise<PutOutcome> {
  await directory.make();
  const outcome = await putFile(layout, key, body, options);
  return outcome.kind === 'stored' ? outcome : unlessOurs(layout, key, options.meta, outcome);
}

/** The object is ours if the directory vanished for a moment after our write, and the write was then retried. */
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

/** A previous try may already have renamed the file, so the old name is looked up before the first try. */
async function promote(
  place: OpenDirectory,
  from: string,
  to: string,
  { precondition, signal }: PromoteOptions,
): Promise<PutOutcome> {
  const { layout } = place;
  const source = await request(place, { verb: 'head', key: from, signal }, () => headFile(layout, from));
  const missing = `promote ${layout.root}/${from}: there is no such object`;
  if (source === undefined) throw new StoreError('missing', missing);
  return request(place, { verb: 'put', key: to, signal }, async () => {
    const outcome = await promoteFile(layout, { from, to, precondition, signal });
    if (outcome?.kind === 'stored') return outcome;
    const now = await unlessOurs(layout, to, source.meta, outcome ?? { kind: 'exists' });
    if (outcome === undefined && now.kind !== 'stored') throw new StoreError('missing', missing);
    return now;
  });
}

async function* list(
  place: OpenDirectory,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<ListedObject> {
  try {
    await place.directory.check();
    yield* listFiles(place.layout, prefix, signal);
    await place.directory.check();
  } catch (error) {
    const why = await whyOf(place, 'list', prefix, error);
    if (why instanceof StoreError && signal?.aborted !== true) place.onTry?.(USES.list, why);
    throw why;
  }
  if (signal?.aborted !== true) place.onTry?.(USES.list, undefined);
}

async function remove(layout: Layout, key: string, signal: AbortSignal | undefined): Promise<void> {
  try {
    await inFolder(layout, layout.spotOf(key), async (path, at) => {
      const stat = await fs.lstat(path, { bigint: true });
      // Other kinds of files are no objects, and not ours to remove.
      if (!stat.isFile() && !stat.isSymbolicLink()) return;
      signal?.throwIfAborted();
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

async function copy(place: OpenDirectory, { from, to, signal }: Copy): Promise<void> {
  const { layout } = place;
  const source = await request(
    place,
    { verb: 'get', key: from, signal },
    () => getFile(layout, from, { signal }, 'refused'),
    closeUnread,
  );
  if (source === undefined)
    throw new StoreError('missing', `copy ${layout.root}/${from}: there is no such object`);
  try {
    await put(place, to, source.body, { meta: source.meta, signal, mostMode: source.permissions });
  } finally {
    await inSteps(source.body, signal).return?.();
  }
}

/** The store's error for a failure. If the directory is gone, that is the reason, whatever failed. */
async function whyOf(
  { layout, directory }: OpenDirectory,
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

/** errno(3); the transient ones occur on network file systems. */
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

/** The store's error for a failed system call. Other errors are returned unchanged (the body's own error). */
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
