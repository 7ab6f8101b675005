// The driver for a directory of a server that is reached with SSH: a group's file server. It joins the other files, each of
// which has one function.
import pLimit from 'p-limit';
import type { StoreSettings } from '../../model/format/settings.ts';
import { prepareMd5 } from '../../model/md5.ts';
import { type Connections, sharedConnection } from '../contract/driver.ts';
import type { Access, OnTry, Store } from '../contract/store.ts';
import { openConnection, type SftpConnection, type Target } from './connection.ts';
import { copyObject, promoteObject } from './copy.ts';
import { deleteObjects, listFolders, listObjects } from './list.ts';
import { newKnown, type Place, request } from './place.ts';
import { putObject } from './put.ts';
import { abortable, getObject, headObject } from './read.ts';
import { sweep } from './sweep.ts';
import { locationOf } from './url.ts';

/** Of all bodies together: 8 MiB. */
const PIECES_AT_ONCE = 64;

/** Opens `sftp://user@host/directory`. The first put makes the directory; no put makes it again. */
export async function openSftpStore(
  settings: StoreSettings,
  budgetMs: number,
  { onTry, connections }: SftpTuning = {},
): Promise<Store> {
  // This file of the program has its own md5 (build.mjs).
  await prepareMd5();
  const { directory, ...target } = locationOf(settings.url);
  const place: Place = {
    connection: await connectionTo(target, connections),
    directory,
    url: settings.url,
    budgetMs,
    onTry,
    known: newKnown(directory),
    inTurn: pLimit(PIECES_AT_ONCE),
    givenUp: new Map(),
  };
  return {
    url: settings.url,
    createsAtomically: true,
    listsByPage: false,
    // A rename has no conditions.
    replacesAtomically: async () => false,
    put: (key, body, options) => putObject(place, key, body, options),
    get: (key, options = {}) => getObject(place, key, options),
    head: (key, signal) => headObject(place, key, signal),
    list: (prefix, signal) => abortable(listObjects(place, prefix, signal), signal),
    folders: (prefix, signal) => listFolders(place, prefix, signal),
    delete: (keys, signal) => deleteObjects(place, keys, signal),
    copy: (from, to, signal) => copyObject(place, { from, to, signal }),
    promote: (from, to, { signal, ...how } = {}) => promoteObject(place, { from, to, signal }, how),
    sweep: (prefix, mine, signal) => sweep(place, prefix, mine, signal),
    // Only the server can see it: each operation looks.
    confirm: async () => undefined,
    access: (signal) => access(place, signal),
    close: async () => place.connection.close(),
  };
}

/** Signs in: whether the server accepts a key is known only then. */
function access(place: Place, signal: AbortSignal | undefined): Promise<Access> {
  const ask = { verb: 'head', key: '', signal, budgetMs: 0 } as const;
  return request(place, ask, async () => ({ expiresMs: undefined, isSession: false, isRenewable: true }));
}

interface SftpTuning {
  readonly onTry?: OnTry | undefined;
  readonly connections?: Connections | undefined;
}

/** Tasks with the same server share a connection. */
async function connectionTo(target: Target, connections: Connections | undefined): Promise<SftpConnection> {
  if (connections === undefined) return openConnection(target);
  return sharedConnection(connections, JSON.stringify(target), async () => openConnection(target));
}
