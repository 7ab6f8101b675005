// The driver for Azure Blob Storage. It joins the other files, each of which has one function.
import type { Mistake } from '../../model/errors.ts';
import type { StoreSettings } from '../../model/format/settings.ts';
import { prepareMd5 } from '../../model/md5.ts';
import type { OnTry, Store } from '../contract/store.ts';
import { accessOf, type BlobContainer, openContainer } from './container.ts';
import { copyObject, promoteObject } from './copy.ts';
import { listFolders, listObjects } from './list.ts';
import { deleteObjects, getObject, headObject } from './objects.ts';
import { putObject } from './put.ts';

/** Opens `az://account/container/prefix`. Azure honours all conditions; so does azurite, which its tests use. */
export async function openAzureStore(
  settings: StoreSettings,
  budgetMs: number,
  { onTry, warn }: AzureTuning = {},
): Promise<Store> {
  // This file of the program has its own md5 (build.mjs).
  await prepareMd5();
  const container = await openContainer(settings, budgetMs, onTry);
  const warning = plainWarning(container);
  if (warning !== undefined) warn?.(warning);
  return {
    url: container.url,
    createsAtomically: true,
    listsByPage: true,
    replacesAtomically: async () => true,
    put: (key, body, options) => putObject(container, key, body, options),
    get: (key, options = {}) => getObject(container, key, options),
    head: (key, signal) => headObject(container, key, signal),
    list: (prefix, signal) => listObjects(container, prefix, signal),
    folders: (prefix, signal) => listFolders(container, prefix, signal),
    delete: (keys, signal) => deleteObjects(container, keys, { signal }),
    copy: (from, to, signal) => copyObject(container, { from, to, signal }),
    promote: (from, to, { signal, ...how } = {}) => promoteObject(container, { from, to, signal }, how),
    // Azure deletes blocks that nothing has committed after a week, or once the object is written again. No request could
    // delete them earlier without a moment in which an empty object stands there.
    sweep: async () => true,
    confirm: async () => undefined,
    access: (signal) => accessOf(container, signal),
    close: async () => undefined,
  };
}

interface AzureTuning {
  readonly onTry?: OnTry | undefined;
  readonly warn?: ((warning: Mistake) => void) | undefined;
}

/** Warns about a store without TLS, unless it is on this machine, where nobody else can listen. */
function plainWarning({ endpoint }: BlobContainer): Mistake | undefined {
  const { protocol, hostname } = new URL(endpoint);
  if (protocol === 'https:' || /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)) return undefined;
  return {
    message: `requests to ${endpoint} are signed, but not encrypted: others on the way can read data and a SAS`,
    hint: 'BlobEndpoint=https://... in AZURE_STORAGE_CONNECTION_STRING, if the server speaks TLS',
  };
}
