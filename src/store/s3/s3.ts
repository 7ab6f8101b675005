// The driver for Amazon S3 and compatible servers. It joins the other files, each of which has one function.
import type { Mistake } from '../../model/errors.ts';
import type { StoreSettings } from '../../model/format/settings.ts';
import { prepareMd5 } from '../../model/md5.ts';
import { type Connections, sharedConnection } from '../contract/driver.ts';
import type { OnTry, Store } from '../contract/store.ts';
import { isLoopback } from '../http/proxy.ts';
import { accessOf, type Bucket, openBucket } from './bucket.ts';
import { copyObject, moveObject } from './copy.ts';
import { sweepUploads } from './multipart.ts';
import { deleteObjects, getObject, headObject, listFolders, listObjects } from './objects.ts';
import { putObject } from './put.ts';
import { readsConditions } from './server.ts';
import { settle } from './settle.ts';
import { isDirectory } from './url.ts';

/**
 * Opens `s3://bucket/prefix`. Endpoint, region, profile and credentials come from the AWS environment and files, in the
 * SDK's order. `createsAtomically` is true for Amazon's own servers; how other servers handle If-None-Match must be
 * tested.
 */
export async function openS3Store(
  settings: StoreSettings,
  budgetMs: number,
  tuning: S3Tuning = {},
): Promise<Store> {
  // This file of the program has its own md5 (build.mjs).
  await prepareMd5();
  const bucket = await bucketOf(settings, budgetMs, tuning);
  const warning = plainWarning(bucket.location);
  if (warning !== undefined) tuning.warn?.(warning);
  return {
    url: bucket.url,
    createsAtomically: bucket.location.isAws,
    listsByPage: !isDirectory(bucket.name),
    replacesAtomically: (signal) => readsConditions(bucket, signal),
    put: (key, body, options) => putObject(bucket, key, body, options),
    get: (key, options = {}) => getObject(bucket, key, options),
    head: (key, signal) => headObject(bucket, key, { signal }),
    list: (prefix, signal) => listObjects(bucket, prefix, signal),
    folders: (prefix, signal) => listFolders(bucket, prefix, signal),
    delete: (keys, signal) => deleteObjects(bucket, keys, { signal }),
    copy: async (from, to, signal) => {
      await settle(bucket, to, signal);
      await copyObject(bucket, { from, to, signal });
    },
    promote: async (from, to, { precondition, source, signal } = {}) => {
      await settle(bucket, to, signal);
      return moveObject(bucket, { from, to, signal }, { precondition, source });
    },
    sweep: (prefix, mine, signal) => sweepUploads(bucket, prefix, mine, signal),
    confirm: async () => undefined,
    access: (signal) => accessOf(bucket, signal),
    close: async () => bucket.close(),
  };
}

interface S3Tuning {
  readonly onTry?: OnTry;
  readonly warn?: (warning: Mistake) => void;
  readonly connections?: Connections;
}

/** Tasks with the same settings share sockets and credentials. Each gets the results of its own tries. */
async function bucketOf(
  settings: StoreSettings,
  budgetMs: number,
  { onTry, connections }: S3Tuning,
): Promise<Bucket> {
  if (connections === undefined) return openBucket(settings, budgetMs, { onTry });
  const key = JSON.stringify([settings.url, settings.flags, budgetMs]);
  return { ...(await sharedConnection(connections, key, () => openBucket(settings, budgetMs))), onTry };
}

/** Warns about a store without TLS, unless it is on this machine, where nobody else can listen. */
function plainWarning({ server, origin }: Bucket['location']): Mistake | undefined {
  if (server.isTls || isLoopback(server.host)) return undefined;
  return {
    message: `requests to ${origin} are signed, but not encrypted: others on the way can read data and session tokens`,
    hint: 'AWS_ENDPOINT_URL_S3=https://..., if the server speaks TLS',
  };
}
