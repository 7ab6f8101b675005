// Lists and deletes objects, and sweeps what interrupted puts left. Links and other kinds of files are no objects of ours: a
// listing follows a link to a file, because users stage inputs so, and nothing else.
import { joinPath } from '../../model/path.ts';
import { forEachAtOnce, readAhead, untilAborted } from '../../model/waiting.ts';
import { roomInHeap, tooManyForHeap } from '../../native/heap.ts';
import { type IsMine, type ListedObject, StoreError } from '../contract/store.ts';
import { failureFor } from './failure.ts';
import { dropListed, dropMeta, parsedMeta, readOwn } from './metadata.ts';
import {
  check,
  folderOf,
  META_SUFFIX,
  OURS,
  pathOf,
  type Place,
  request,
  syncFolder,
  temporaries,
} from './place.ts';
import { inOrder } from './put.ts';
import { Dropped, type Entry, kindOf, type Session, unlessMissing } from './session.ts';

/** Each is a round trip. */
const FOLDERS_AT_ONCE = 16;
const DELETED_AT_ONCE = 16;
/** Of connections, during one listing. */
const MOST_BREAKS = 10;
/** Memory for an entry, without the characters of its name. */
const ENTRY_BYTES = 150;
/** A note that cannot be read is of a put that was killed while it wrote it, or of one that is just doing so. */
const UNREADABLE_FOR_S = 24 * 3600;

interface Walk {
  readonly place: Place;
  readonly session: Session;
  readonly prefix: string;
  readonly signal: AbortSignal | undefined;
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
      const walk: Walk = { place, session, prefix, signal };
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
    const entries = await entriesOf({ place, session, prefix, signal }, prefix.slice(0, -1), () => true);
    return entries.filter((entry) => kindOf(entry) === 'directory').map(({ name }) => name);
  });
}

async function* below(walk: Walk, folder: string, entries: readonly Entry[]): AsyncGenerator<ListedObject> {
  const looked = readAhead(entries, FOLDERS_AT_ONCE, async (entry) => {
    const key = joinPath(folder, entry.name);
    if (kindOf(entry) === 'directory') return { key, inside: await wantedIn(walk, key) };
    return { key, found: kindOf(entry) === 'link' ? await target(walk, key) : entry };
  });
  for await (const { key, inside, found } of looked) {
    walk.signal?.throwIfAborted();
    if (inside !== undefined) yield* below(walk, key, inside);
    else if (found !== undefined && kindOf(found) === 'file')
      yield { key, sizeBytes: found.sizeBytes, modifiedMs: found.mtimeS * 1000 };
  }
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

/** A folder's name counts with a slash for the order of keys: `a.b` comes before `a/b`. */
async function entriesOf(
  { session, place, signal }: Walk,
  folder: string,
  isWanted: (name: string) => boolean,
): Promise<readonly Entry[]> {
  const found: { readonly order: Buffer; readonly entry: Entry }[] = [];
  let leftBytes = roomInHeap();
  const read = async (): Promise<void> => {
    for await (const some of session.entries(
      folder === '' ? place.directory : `${place.directory}/${folder}`,
    )) {
      signal?.throwIfAborted();
      for (const entry of some) {
        const name = kindOf(entry) === 'directory' ? `${entry.name}/` : entry.name;
        if ((folder === '' && entry.name === OURS) || !isWanted(name)) continue;
        found.push({ order: Buffer.from(name), entry });
        leftBytes -= ENTRY_BYTES + 2 * name.length;
        if (leftBytes < 0) throw tooManyForHeap(`names in ${place.url}/${folder}`, found.length);
      }
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

/** Removes the temporaries of interrupted puts for keys that are `mine`. Foreign files stay. */
export async function sweep(
  place: Place,
  prefix: string,
  mine: IsMine,
  signal: AbortSignal | undefined,
): Promise<true> {
  const swept = request(place, { verb: 'sweep', key: prefix, signal }, async (session): Promise<true> => {
    await check(session, place);
    const folder = temporaries(place);
    const entries = await allEntries(session, folder);
    const newest = entries.reduce((most, { mtimeS }) => Math.max(most, mtimeS), 0);
    for (const note of entries.filter(({ name }) => name.endsWith(META_SUFFIX))) {
      signal?.throwIfAborted();
      const text = await readOwn(session, `${folder}/${note.name}`);
      // Undefined: the put has ended since.
      if (text === undefined) continue;
      const key = parsedMeta(text)?.key;
      const isOld = key === undefined && note.mtimeS < newest - UNREADABLE_FOR_S;
      if (!isOld && !(key?.startsWith(prefix) === true && (await mine(key)))) continue;
      signal?.throwIfAborted();
      const name = note.name.slice(0, -META_SUFFIX.length);
      const own = entries.filter((one) => one.name === name || one.name.startsWith(`${name}.`));
      // The note last: it tells the next sweep what this one has left.
      for (const one of own.filter((one) => one !== note))
        await session.remove(`${folder}/${one.name}`).catch(unlessMissing);
      await session.remove(`${folder}/${note.name}`).catch(unlessMissing);
    }
    await dropListed(session, place, entries);
    return true;
  });
  return untilAborted(swept, signal);
}

async function allEntries(session: Session, folder: string): Promise<readonly Entry[]> {
  const all: Entry[] = [];
  try {
    for await (const some of session.entries(folder)) all.push(...some);
  } catch (error) {
    unlessMissing(error);
  }
  return all;
}
