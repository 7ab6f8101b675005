// The driver for Google Cloud Storage. It joins the other files, each of which has one function.
import type { StoreSettings } from '../../model/format/settings.ts';
import { prepareMd5 } from '../../model/md5.ts';
import { type Connections, sharedConnection } from '../contract/driver.ts';
import type { OnTry, Store } from '../contract/store.ts';
import { accessOf, type Bucket, openBucket } from './bucket.ts';
import { copyObject, moveObject } from './copy.ts';
import { deleteObjects, getObject, headObject, listFolders, listObjects } from './objects.ts';
import { putObject } from './put.ts';

/** Opens `gs://bucket/prefix` with Application Default Credentials. */
export async function openGcsStore(
  settings: StoreSettings,
  budgetMs: number,
  tuning: GcsTuning = {},
): Promise<Store> {
  // This file of the program has its own md5 (build.mjs).
  await prepareMd5();
  const bucket = await bucketOf(settings, budgetMs, tuning);
  return {
    url: bucket.url,
    createsAtomically: true,
    listsByPage: true,
    replacesAtomically: async () => true,
    put: (key, body, options) => putObject(bucket, key, body, options),
    get: (key, options = {}) => getObject(bucket, key, options),
    head: (key, signal) => headObject(bucket, key, signal),
    list: (prefix, signal) => listObjects(bucket, prefix, signal),
    folders: (prefix, signal) => listFolders(bucket, prefix, signal),
    delete: (keys, signal) => deleteObjects(bucket, keys, signal),
    copy: (from, to, signal) => copyObject(bucket, { from, to, signal }),
    promote: (from, to, { precondition, source, signal } = {}) =>
      moveObject(bucket, { from, to, signal }, { precondition, source }),
    // An upload that is left cannot be listed. It costs nothing, and ends after a week.
    sweep: async (_prefix, _mine, signal) => {
      signal?.throwIfAborted();
      return true;
    },
    confirm: async () => undefined,
    access: (signal) => accessOf(bucket, signal),
    close: async () => bucket.close(),
  };
}

interface GcsTuning {
  readonly onTry?: OnTry;
  readonly connections?: Connections;
}

/** Tasks with the same settings share sockets and tokens. Each gets the results of its own tries. */
async function bucketOf(
  settings: StoreSettings,
  budgetMs: number,
  { onTry, connections }: GcsTuning,
): Promise<Bucket> {
  if (connections === undefined) return openBucket(settings, budgetMs, { onTry });
  const key = JSON.stringify([settings.url, budgetMs]);
  return { ...(await sharedConnection(connections, key, async () => openBucket(settings, budgetMs))), onTry };
}
