// The driver for Amazon S3 and servers that speak its protocol: one file for each thing it does, joined here.
import type { StoreSettings } from '../../model/format/settings.ts';
import type { OnTry, Store } from '../contract/store.ts';
import { accessOf, openBucket } from './bucket.ts';
import { copyObject } from './copy.ts';
import { sweepUploads } from './multipart.ts';
import { deleteObjects, getObject, headObject, listFolders, listObjects } from './objects.ts';
import { putObject } from './put.ts';

/**
 * Opens `s3://bucket/prefix`. Endpoint, region, profile and credentials come from the AWS environment and
 * files, in the SDK's order. `createsAtomically` is true for Amazon's own servers; what others do with
 * If-None-Match must be found out.
 */
export async function openS3Store(settings: StoreSettings, budgetMs: number, onTry?: OnTry): Promise<Store> {
  const bucket = await openBucket(settings, budgetMs, { onTry });
  return {
    url: bucket.url,
    createsAtomically: bucket.place.isAws,
    listsByPage: true,
    put: (key, body, options) => putObject(bucket, key, body, options),
    get: (key, options = {}) => getObject(bucket, key, options),
    head: (key, signal) => headObject(bucket, key, { signal }),
    list: (prefix, signal) => listObjects(bucket, prefix, signal),
    folders: (prefix, signal) => listFolders(bucket, prefix, signal),
    delete: (keys, signal) => deleteObjects(bucket, keys, signal),
    copy: (from, to, signal) => copyObject(bucket, { from, to, signal }),
    sweep: (prefix, mine, signal) => sweepUploads(bucket, prefix, mine, signal),
    confirm: async () => undefined,
    access: () => accessOf(bucket),
    close: async () => bucket.close(),
  };
}
