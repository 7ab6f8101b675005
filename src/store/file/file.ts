// The driver for a directory: a shared file system, or a disk to try things on. Objects are plain files.
import fs from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { errnoOf } from '../../model/errors.ts';
import type { StoreSettings } from '../../model/format/settings.ts';
import { reached } from '../../native/failpoint.ts';
import { watched } from '../contract/body.ts';
import { retrying } from '../contract/retry.ts';
import {
  StoreError,
  isLost,
  type OnTry,
  type PutOptions,
  type PutOutcome,
  type Store,
  type StoreUse,
} from '../contract/store.ts';
import { fileFailure } from './failure.ts';
import { layoutOf, type Layout } from './layout.ts';
import { listFileFolders, listFiles } from './list.ts';
import { dropMeta } from './meta.ts';
import { putFile, sweepTemporaries } from './put.ts';
import { getFile, headFile } from './read.ts';
import { openRoot, type StoreRoot } from './root.ts';
import { syncDirectory } from './sync.ts';

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
  onTry?: OnTry,
): Promise<Store> {
  const root = fileURLToPath(settings.url).replace(/(?<=.)\/+$/, '');
  const layout = layoutOf(root);
  const directory = openRoot(root);
  const place = { layout, directory };
  const run = <T>(
    verb: keyof typeof USES,
    key: string,
    work: () => Promise<T>,
    signal?: AbortSignal,
    budget = budgetMs,
  ) =>
    retrying(
      async () => {
        try {
          await directory.check();
          const answer = await work();
          // What is not found, and what was written, may be so in another directory.
          await directory.check();
          return answer;
        } catch (error) {
          throw await whyOf(place, verb, key, error);
        }
      },
      { budgetMs: budget, signal, onTry: (error) => onTry?.(USES[verb], error) },
    );
  const store: Store = {
    url: `file://${root}`,
    createsAtomically: true,
    put: async (key, body, options) => {
      if (body instanceof Uint8Array) {
        return run('put', key, () => putInto(place, key, [body], options), options.signal);
      }
      const { chunks, failure } = watched(body);
      // A body that was read in part cannot be read again: one try.
      const put = run('put', key, () => putInto(place, key, chunks, options), options.signal, 0);
      return put.catch((error: unknown) => {
        throw failure()?.error ?? error;
      });
    },
    get: (key, options = {}) => run('get', key, () => getFile(layout, key, options), options.signal),
    head: (key, signal) => run('head', key, () => headFile(layout, key), signal),
    list: async function* list(prefix, signal) {
      try {
        await directory.check();
        yield* listFiles(layout, prefix, signal);
        await directory.check();
      } catch (error) {
        throw await whyOf(place, 'list', prefix, error);
      }
    },
    folders: (prefix, signal) => run('list', prefix, () => listFileFolders(layout, prefix), signal),
    delete: async (keys, signal) => {
      for (const key of keys) await run('delete', key, () => remove(layout, key), signal);
    },
    copy: async (from, to, signal) => {
      const source = await store.get(from, { signal });
      if (source === undefined)
        throw new StoreError('missing', `copy ${root}/${from}: there is no such object`);
      try {
        await store.put(to, source.body, { meta: source.meta, signal });
      } finally {
        await source.body[Symbol.asyncIterator]().return?.();
      }
    },
    sweep: (prefix, mine, signal) =>
      run('sweep', prefix, () => sweepTemporaries(layout, prefix, mine, signal), signal),
    confirm: () =>
      directory.check().catch(async (error: unknown) => {
        throw await whyOf(place, 'look for', '', error);
      }),
    close: () => directory.close(),
  };
  return store;
}

interface Place {
  readonly layout: Layout;
  readonly directory: StoreRoot;
}

async function putInto(
  { layout, directory }: Place,
  key: string,
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  options: PutOptions,
): Promise<PutOutcome> {
  await directory.make();
  const outcome = await putFile(layout, key, body, options);
  if (outcome === 'stored') return outcome;
  // Ours, when the directory was gone for a moment after it was written.
  const there = await headFile(layout, key);
  return there?.meta['push'] === options.meta['push'] ? 'stored' : 'exists';
}

/** The store's error for a failure. Whatever failed: that the directory is gone says why. */
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

async function remove(layout: Layout, key: string): Promise<void> {
  const path = layout.objectPath(key);
  try {
    const { ino } = await fs.lstat(path, { bigint: true });
    await fs.unlink(path);
    reached('file-delete.unlinked');
    await syncDirectory(dirname(path));
    await dropMeta(layout, key, ino);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ENOTDIR') throw error;
  }
}
