// Lists and deletes objects. Links and other kinds of files are no objects of ours: a listing follows a link to a file,
// because users stage inputs so, and nothing else.
import { joinPath } from '../../model/path.ts';
import { forEachAtOnce, readAhead } from '../../model/waiting.ts';
import { roomInHeap, tooManyForHeap } from '../../native/heap.ts';
import { type ListedObject, StoreError } from '../contract/store.ts';
import { failureFor } from './failure.ts';
import { dropMeta } from './metadata.ts';
import { check, folderOf, OURS, pathOf, type Place, request, syncFolder } from './place.ts';
import { inOrder } from './put.ts';
import { Dropped, type Entry, kindOf, type Session, unlessMissing } from './session.ts';

/** Each is a round trip. */
const FOLDERS_AT_ONCE = 16;
const DELETED_AT_ONCE = 16;
/** Of connections, during one listing. */
const MOST_BREAKS = 10;
/** Memory for an entry, without the characters of its name. */
const ENTRY_BYTES = 150;
/** Folders in one another. A key of capture has fewer: the path in it has at most 720 bytes. */
const MOST_LEVELS = 400;
/** In a row without an object. The folders of removed objects stay: those of a large array may all be empty. */
const MOST_IDLE_FOLDERS = 1_000_000;
/** In one folder. A server cannot look for a prefix: it lists the results of all indices to show those of one. */
const MOST_UNASKED_NAMES = 5_000_000;
/** In a row without a name. */
const MOST_EMPTY_ANSWERS = 100;

interface Walk {
  readonly place: Place;
  readonly session: Session;
  readonly prefix: string;
  readonly signal: AbortSignal | undefined;
  /** Of the heap, for the names of all folders that it is in, and of those that are read ahead. */
  leftBytes: number;
  /** Read since the last object. */
  idleFolders: number;
}

function newWalk(at: Pick<Walk, 'place' | 'session' | 'prefix' | 'signal'>): Walk {
  return { ...at, leftBytes: roomInHeap(), idleFolders: 0 };
}

/**
 * All objects whose keys start with `prefix`, in byte order. After a connection has broken, it begins again behind the
 * last key.
 */
export async function* listObjects(
  place: Place,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<ListedObject> {
  const folder = folderOf(prefix);
  let last: Buffer | undefined;
  for (let left = MOST_BREAKS; ; left -= 1) {
    const { walk, entries } = await request(place, { verb: 'list', key: prefix, signal }, async (session) => {
      await check(session, place);
      const walk = newWalk({ place, session, prefix, signal });
      return { walk, entries: await wantedIn(walk, folder) };
    });
    try {
      for await (const one of below(walk, folder, entries)) {
        const key = Buffer.from(one.key);
        if (last !== undefined && Buffer.compare(key, last) <= 0) continue;
        last = key;
        yield one;
      }
      await check(walk.session, place);
      return;
    } catch (error) {
      signal?.throwIfAborted();
      const operation = `list ${place.url}/${prefix}`;
      const why = await failureFor(error, { operation, session: walk.session, at: place.directory });
      if (why instanceof StoreError) place.onTry?.('read', why);
      if (!(error instanceof Dropped) || left === 0) throw why;
    }
  }
}

/** Names of the folders directly in the folder `prefix`. */
export async function listFolders(
  place: Place,
  prefix: string,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  return request(place, { verb: 'list', key: prefix, signal }, async (session) => {
    await check(session, place);
    const walk = newWalk({ place, session, prefix, signal });
    const entries = await entriesOf(walk, prefix.slice(0, -1), () => true);
    return entries.filter((entry) => kindOf(entry) === 'directory').map(({ name }) => name);
  });
}

async function* below(walk: Walk, folder: string, entries: readonly Entry[]): AsyncGenerator<ListedObject> {
  const looked = readAhead(entries, FOLDERS_AT_ONCE, async (entry) => {
    const key = joinPath(folder, entry.name);
    if (kindOf(entry) === 'directory') return { key, inside: await inFolder(walk, key) };
    return { key, found: kindOf(entry) === 'link' ? await target(walk, key) : entry };
  });
  for await (const { key, inside, found } of looked) {
    walk.signal?.throwIfAborted();
    if (inside !== undefined) yield* below(walk, key, inside);
    else if (found !== undefined && kindOf(found) === 'file') {
      walk.idleFolders = 0;
      yield { key, sizeBytes: found.sizeBytes, modifiedMs: found.mtimeS * 1000 };
    }
  }
  walk.leftBytes += entries.reduce((sum, { name }) => sum + bytesOf(name), 0);
}

async function inFolder(walk: Walk, key: string): Promise<readonly Entry[]> {
  if (key.split('/').length > MOST_LEVELS)
    throw endless(walk, walk.prefix, `more than ${MOST_LEVELS} folders in one another`);
  walk.idleFolders += 1;
  if (walk.idleFolders > MOST_IDLE_FOLDERS)
    throw endless(walk, walk.prefix, `more than ${MOST_IDLE_FOLDERS} folders in a row without an object`);
  return wantedIn(walk, key);
}

function endless({ place }: Walk, where: string, what: string): StoreError {
  return new StoreError('refused', `list ${place.url}/${where}: ${what}`, {
    hint: 'if nobody has made so many, what answers there lists without end: check the host and the port',
  });
}

function target({ session, place }: Walk, key: string) {
  return session.stat(pathOf(place, key)).catch(unlessMissing);
}

/** The folder's entries that a key with the prefix may name or pass through. */
function wantedIn(walk: Walk, folder: string): Promise<readonly Entry[]> {
  return entriesOf(walk, folder, (name) => {
    const key = joinPath(folder, name);
    return key.startsWith(walk.prefix) || (name.endsWith('/') && walk.prefix.startsWith(key));
  });
}

function bytesOf(name: string): number {
  return ENTRY_BYTES + 2 * name.length;
}

/** A folder's name counts with a slash for the order of keys: `a.b` comes before `a/b`. */
async function entriesOf(
  walk: Walk,
  folder: string,
  isWanted: (name: string) => boolean,
): Promise<readonly Entry[]> {
  const { session, place, signal } = walk;
  const found: { readonly order: Buffer; readonly entry: Entry }[] = [];
  let unasked = 0;
  let emptyAnswers = 0;
  const take = (entry: Entry): void => {
    const name = kindOf(entry) === 'directory' ? `${entry.name}/` : entry.name;
    if ((folder === '' && entry.name === OURS) || !isWanted(name)) {
      unasked += 1;
      return;
    }
    found.push({ order: Buffer.from(name), entry });
    walk.leftBytes -= bytesOf(entry.name);
    if (walk.leftBytes < 0) throw tooManyForHeap(`names in ${place.url}/${folder}`, found.length);
  };
  const read = async (): Promise<void> => {
    for await (const some of session.entries(
      folder === '' ? place.directory : `${place.directory}/${folder}`,
    )) {
      signal?.throwIfAborted();
      for (const entry of some) take(entry);
      emptyAnswers = some.length === 0 ? emptyAnswers + 1 : 0;
      if (emptyAnswers > MOST_EMPTY_ANSWERS)
        throw endless(walk, folder, `more than ${MOST_EMPTY_ANSWERS} answers in a row without a name`);
      if (unasked > MOST_UNASKED_NAMES)
        throw endless(walk, folder, `more than ${MOST_UNASKED_NAMES} names that capture did not ask for`);
    }
  };
  await read().catch(unlessMissing);
  return found.toSorted((a, b) => Buffer.compare(a.order, b.order)).map(({ entry }) => entry);
}

export async function deleteObjects(
  place: Place,
  keys: readonly string[],
  signal: AbortSignal | undefined,
): Promise<void> {
  await forEachAtOnce(keys, DELETED_AT_ONCE, (key) =>
    inOrder(place, key, signal, () => deleteObject(place, key, signal)),
  );
}

async function deleteObject(place: Place, key: string, signal: AbortSignal | undefined): Promise<void> {
  const path = pathOf(place, key);
  /** What a try has found: one whose answer was lost may have removed it. */
  let seen: Omit<Entry, 'name'> | undefined;
  await request(place, { verb: 'delete', key, signal }, async (session) => {
    await check(session, place);
    const found = await session.lstat(path).catch(unlessMissing);
    // Other kinds of files are no objects, and not ours to remove.
    if (found !== undefined && !['file', 'link'].includes(kindOf(found))) return;
    seen = found ?? seen;
    signal?.throwIfAborted();
    if (found !== undefined) {
      await session.remove(path).catch(unlessMissing);
      await syncFolder(session, `${place.directory}/${folderOf(key)}`);
    }
    if (seen !== undefined && kindOf(seen) === 'file') await dropMeta(session, place, key, seen);
  });
}
