// The driver for Amazon S3 and servers that speak its protocol: one file for each thing it does, joined here.
import type { StoreSettings } from '../../model/format/settings.ts';
import type { OnTry, Store } from '../contract/store.ts';
import { openBucket } from './bucket.ts';
import { copyObject } from './copy.ts';
import { putObject } from './put.ts';
import { getObject, headObject, listFolders, listObjects } from './read.ts';
import { deleteObjects, sweepUploads } from './remove.ts';

/**
 * Opens `s3://bucket/prefix`. Endpoint, region, profile and credentials come from the AWS environment and
 * files, in the SDK's order. `createsAtomically` is true once a request went to one of Amazon's own servers;
 * what other servers do with If-None-Match must be found out.
 */
export async function openS3Store(settings: StoreSettings, budgetMs: number, onTry?: OnTry): Promise<Store> {
  // The SDK's warning about old Node versions would go to the task's terminal.
  process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] = 'true';
  const bucket = await openBucket(settings, budgetMs, { onTry });
  return {
    url: bucket.url,
    get createsAtomically() {
      return bucket.isAws();
    },
    put: (key, body, options) => putObject(bucket, key, body, options),
    get: (key, options = {}) => getObject(bucket, key, options),
    head: (key, signal) => headObject(bucket, key, { signal }),
    list: (prefix, signal) => listObjects(bucket, prefix, signal),
    folders: (prefix, signal) => listFolders(bucket, prefix, signal),
    delete: (keys, signal) => deleteObjects(bucket, keys, signal),
    copy: (from, to, signal) => copyObject(bucket, { from, to, signal }),
    sweep: (prefix, mine, signal) => sweepUploads(bucket, prefix, mine, signal),
    confirm: async () => undefined,
    close: async () => bucket.close(),
  };
}
