// One store: a directory of a server, as `src/store/file` has it. An object is a plain file under its key. Our own files are
// in `.capture-store`: temporaries, and for each state of an object a file with its metadata.
//
// SFTP 3 shows neither inodes nor fractions of a second. So the name of the metadata says whose they are: key, size and
// time. No two states of a key have the same name at about the same time: a writer gives its state a time that is not
// before the server's clock, and takes the name with a hard link, which fails if it is taken. A name goes only when the
// clock is well past its time. So a reader that has opened a state finds the metadata of that state, or none.
import { randomUUID } from 'node:crypto';
import { posix } from 'node:path';
import type { LimitFunction } from 'p-limit';
import * as z from 'zod';
import { parseForeignJson } from '../../model/format/foreign-json.ts';
import { TASKS_PREFIX } from '../../model/format/keys.ts';
import { md5Of } from '../../model/md5.ts';
import { isInside } from '../../model/path.ts';
import { untilAborted } from '../../model/waiting.ts';
import { clockMs } from '../../native/clock.ts';
import { retrying } from '../contract/driver.ts';
import { type ObjectMeta, type OnTry, StoreError, type StoreUse } from '../contract/store.ts';
import type { SftpConnection } from './connection.ts';
import { failureFor } from './failure.ts';
import { type Attrs, hasStatus, kindOf, type Session, STATUS, unlessMissing } from './session.ts';

/** At the root of the store. Keys of capture start with `.capture/`, never with this name. */
export const OURS = '.capture-store';
/** Everything that a reader or writer does with a name takes less, or its session is given up. */
const RECENT_S = 900;
/** Metadata have 2 KiB at most, and a key 1 KiB. */
const OWN_PIECE_BYTES = 16 * 1024;
/** Of a list: 100,000 names. */
const MOST_LISTED_BYTES = 8 * 2 ** 20;
/** inode(7): new files in such a directory get its group, so the directory is shared by a group. */
const SET_GROUP_ID = 0o2000;

/** The purpose of each operation; the names appear in messages. */
const USES = {
  get: 'read',
  head: 'read',
  list: 'read',
  put: 'write',
  delete: 'remove',
  sweep: 'remove',
} as const satisfies Readonly<Record<string, StoreUse>>;

export interface Place {
  readonly connection: SftpConnection;
  /** As in the URL: absolute, or relative to the home directory. */
  readonly directory: string;
  readonly url: string;
  readonly budgetMs: number;
  readonly onTry: OnTry | undefined;
  readonly known: Known;
  /** Limits the pieces of all bodies that are on their way, because each is in memory. */
  readonly inTurn: LimitFunction;
  /** By key: writes that were given up, and have not ended yet. */
  readonly givenUp: Map<string, Promise<void>>;
}

/** What one process has learned of the store. */
interface Known {
  /** The store has been there. From then on, it is never made again: that would hide a loss. */
  isThere: boolean;
  /** This process has made what the store needs, or has found it. */
  isMade: boolean;
  isShared: boolean;
  /** How far the server's clock is ahead of ours, s; undefined until a file was written. */
  clockAheadS: number | undefined;
  /** Names of metadata that are no longer needed, and when they may go. */
  readonly going: { readonly path: string; readonly fromMs: number }[];
  /** A file with these names, for a sweep after this process has ended. */
  readonly goingList: { readonly path: string; bytes: number; session?: Session; handle?: Promise<Buffer> };
}

export function newKnown(directory: string): Known {
  const goingList = { path: `${directory}/${OURS}/tmp/${randomUUID()}${GOING_SUFFIX}`, bytes: 0 };
  return { isThere: false, isMade: false, isShared: false, clockAheadS: undefined, going: [], goingList };
}

export interface RequestOptions {
  readonly verb: keyof typeof USES;
  readonly key: string;
  readonly signal?: AbortSignal | undefined;
  /** Replaces the store's budget. */
  readonly budgetMs?: number | undefined;
}

/**
 * Runs one operation, with retries where they help. Throws a {@link StoreError}, or the signal's reason. A read is left at
 * once when the signal aborts; whatever changes something waits for its last answer.
 */
export function request<T>(
  place: Place,
  { verb, key, signal, budgetMs = place.budgetMs }: RequestOptions,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const attempt = async (): Promise<T> => {
    let session: Session | undefined;
    try {
      session = await place.connection.session(signal);
      return await work(session);
    } catch (error) {
      signal?.throwIfAborted();
      throw await failureFor(error, {
        operation: `${verb} ${place.url}/${key}`,
        session,
        at: place.directory,
      });
    }
  };
  const onTry = (error: StoreError | undefined): void => {
    if (signal?.aborted !== true) place.onTry?.(USES[verb], error);
  };
  const answer = retrying(attempt, { budgetMs, signal, onTry });
  return USES[verb] === 'read' ? untilAborted(answer, signal) : answer;
}

/** The path of an object. Throws `refused` for a key that would leave the store. */
export function pathOf(place: Place, key: string): string {
  if (isInside(key) && !`${key}/`.startsWith(`${OURS}/`)) return `${place.directory}/${key}`;
  throw new StoreError('refused', `the key ${JSON.stringify(key)} would leave the store ${place.url}`);
}

export function temporaries(place: Place): string {
  return `${place.directory}/${OURS}/tmp`;
}

export function newTemporary(place: Place): string {
  return `${temporaries(place)}/${randomUUID()}`;
}

/** A file with the metadata of a state, until it has its name; it also says to which key the temporary belongs. */
export const META_SUFFIX = '.meta';

/** A file with names of metadata that are no longer needed: a line each, relative to the store. */
const GOING_SUFFIX = '.going';

/** A state of an object, as far as SFTP shows it. */
export type State = Pick<Attrs, 'sizeBytes' | 'mtimeS'>;

export function isSame(a: State, b: State): boolean {
  return a.sizeBytes === b.sizeBytes && a.mtimeS === b.mtimeS;
}

/** The tag of an object is its push id. A file that a user put there is identified by size and time. */
export function tagOf({ sizeBytes, mtimeS }: State, meta: ObjectMeta): string {
  return meta['push'] ?? `${sizeBytes}-${mtimeS}`;
}

export function metaPath(place: Place, key: string, { sizeBytes, mtimeS }: State): string {
  const name = md5Of(key);
  return `${place.directory}/${OURS}/meta/${name.slice(0, 2)}/${name}.${sizeBytes}.${mtimeS}`;
}

const metaSchema = z.object({ key: z.string(), meta: z.record(z.string(), z.string()) });

export function metaText(key: string, meta: ObjectMeta): Buffer {
  return Buffer.from(JSON.stringify({ key, meta }));
}

/** The metadata of this state; undefined if it has none, as files that a user put there. */
export async function readMeta(
  session: Session,
  place: Place,
  key: string,
  state: State,
): Promise<ObjectMeta | undefined> {
  const text = await readOwn(session, metaPath(place, key, state));
  // The key in it may be another one: that of a promotion, which may not have taken place.
  return text === undefined ? undefined : parsedMeta(text)?.meta;
}

export function parsedMeta(text: string): z.infer<typeof metaSchema> | undefined {
  const json = parseForeignJson(text);
  return 'invalid' in json ? undefined : metaSchema.safeParse(json.value).data;
}

/** The text of one of our own files, or its beginning; undefined if there is none. */
export async function readOwn(
  session: Session,
  path: string,
  mostBytes = OWN_PIECE_BYTES,
): Promise<string | undefined> {
  const handle = await session.open(path, 'r').catch(unlessMissing);
  if (handle === undefined) return undefined;
  try {
    const parts: Buffer[] = [];
    for (let at = 0; at < mostBytes;) {
      const part = Buffer.alloc(Math.min(OWN_PIECE_BYTES, mostBytes - at));
      const bytes = await session.read(handle, part, at);
      parts.push(part.subarray(0, bytes));
      at += bytes;
      if (bytes < part.length) break;
    }
    return Buffer.concat(parts).toString();
  } finally {
    closeLater(session, handle);
  }
}

/** Nobody waits for the answer: a handle that stays open ends with the session. */
export function closeLater(session: Session, handle: Buffer): void {
  session.close(handle).catch(() => undefined);
}

/**
 * The metadata of a state that is no longer under the key. Another state may take the name as long as the clock is not
 * past it, and whoever has opened this one may still look for it: until then the name stays.
 */
export async function dropMeta(session: Session, place: Place, key: string, state: State): Promise<void> {
  if (!place.known.isThere) await check(session, place);
  // Nothing there has metadata.
  if (!place.known.isThere) return;
  const path = metaPath(place, key, state);
  const leftS = state.mtimeS + RECENT_S - (await serverTimeS(session, place));
  if (leftS <= 0) await session.remove(path).catch(unlessMissing);
  else {
    place.known.going.push({ path, fromMs: clockMs() + leftS * 1000 });
    await listGoing(session, place, path.slice(place.directory.length + 1));
  }
  await dropDue(session, place);
}

async function listGoing(session: Session, place: Place, name: string): Promise<void> {
  const { goingList } = place.known;
  if (goingList.session !== session) {
    goingList.session = session;
    goingList.handle = session.open(goingList.path, goingList.bytes === 0 ? 'w' : 'r+', ownMode(place));
  }
  const line = Buffer.from(`${name}\n`);
  const at = goingList.bytes;
  goingList.bytes += line.length;
  const handle = await goingList.handle?.catch(unlessMissing);
  // A sweep has taken the list, and what it named.
  if (handle !== undefined) await session.write(handle, line, at);
}

const GOING_NAME = /^\.capture-store\/meta\/[0-9a-f]{2}\/[0-9a-f]{32}\.\d+\.(\d+)$/;

/** Removes what processes that have ended had to leave. Nobody can take a name whose time is so long past. */
export async function dropListed(
  session: Session,
  place: Place,
  files: readonly { readonly name: string; readonly mtimeS: number }[],
): Promise<void> {
  const lists = files.filter(({ name }) => name.endsWith(GOING_SUFFIX));
  if (lists.length === 0) return;
  const latestS = (await serverTimeS(session, place)) - RECENT_S;
  for (const { name } of lists.filter(({ mtimeS }) => mtimeS < latestS)) {
    const path = `${temporaries(place)}/${name}`;
    const names = ((await readOwn(session, path, MOST_LISTED_BYTES)) ?? '')
      .split('\n')
      .filter((one) => one !== '');
    const due = names.filter((one) => Number(GOING_NAME.exec(one)?.[1] ?? NaN) < latestS);
    for (const one of due) await session.remove(`${place.directory}/${one}`).catch(unlessMissing);
    if (due.length === names.length) await session.remove(path).catch(unlessMissing);
  }
}

async function dropDue(session: Session, { known }: Place): Promise<void> {
  const now = clockMs();
  while (known.going[0] !== undefined && known.going[0].fromMs <= now) {
    const due = known.going.shift();
    if (due !== undefined) await session.remove(due.path).catch(unlessMissing);
  }
}

/** The server's clock, s since the epoch. Asks for it once, with a file. */
async function serverTimeS(session: Session, place: Place): Promise<number> {
  const { known } = place;
  if (known.clockAheadS === undefined) {
    const probe = newTemporary(place);
    const handle = await session.open(probe, 'wx');
    try {
      noteClock(place, await session.fstat(handle));
    } finally {
      closeLater(session, handle);
      await session.remove(probe);
    }
  }
  return clockMs() / 1000 + (known.clockAheadS ?? 0);
}

/** `written`: of a file that was written just now. */
export function noteClock({ known }: Place, written: Attrs): void {
  known.clockAheadS = written.mtimeS - clockMs() / 1000;
}

/**
 * Throws `lost` if the store was there, and is not any more: a file system of the server that is not mounted must not
 * look like a store without objects.
 */
export async function check(session: Session, place: Place): Promise<void> {
  const { known } = place;
  const found = await session.stat(`${place.directory}/${OURS}/tmp`).catch(unlessMissing);
  if (found !== undefined) known.isThere = true;
  else if (known.isThere) throw lost(place);
}

function lost(place: Place): StoreError {
  return new StoreError('lost', `the store ${place.url} is not there any more`, {
    hint: 'mount it again on the server, or move it back; what is not stored stays in the work directory',
  });
}

/** Makes the store if it has never been there. */
export async function make(session: Session, place: Place): Promise<void> {
  const { known, directory } = place;
  await check(session, place);
  if (known.isMade) return;
  await makeFolders(session, directory, 0o777);
  const root = await session.stat(directory);
  known.isShared = (root.mode & SET_GROUP_ID) !== 0;
  await makeFolders(session, temporaries(place), folderMode(place, OURS));
  known.isThere = true;
  known.isMade = true;
}

/** Mode of a new folder, before the umask of the server. Whoever may read an object can also find it. */
export function folderMode({ known }: Place, folder: string): number {
  const isOwn = [`${OURS}/`, TASKS_PREFIX].some((own) => `${folder}/`.startsWith(own));
  if (!isOwn) return 0o777;
  return known.isShared ? 0o770 : 0o700;
}

/** Mode of a new object's file; a copy gives others no more than `most`, the mode of its source. */
export function objectMode(place: Place, { mode = '' }: ObjectMeta, most = 0o777): number {
  const asked = /^[0-7]{1,4}$/.test(mode) ? Number.parseInt(mode, 8) : ownMode(place);
  return (asked & most & 0o777) | 0o600;
}

export function ownMode({ known }: Place): number {
  return known.isShared ? 0o660 : 0o600;
}

/** Makes a folder and those above it that are missing, and makes each new one durable. */
export async function makeFolders(session: Session, path: string, mode: number): Promise<void> {
  const found = await session.stat(path).catch(unlessMissing);
  if (found !== undefined && kindOf(found) !== 'directory')
    throw new StoreError('impossible', `${path} is a file, and would have to be a directory`, {
      hint: 'one key is both an object and the folder of another, or the directory of the store is a file',
    });
  if (found !== undefined) return;
  const above = posix.dirname(path);
  await makeFolders(session, above, mode);
  try {
    await session.makeDirectory(path, mode);
  } catch (error) {
    // Another has made it meanwhile: the answer has no code for that.
    if (!hasStatus(error, STATUS.failure) || (await session.stat(path).catch(unlessMissing)) === undefined)
      throw error;
  }
  await syncFolder(session, above);
}

/** Makes new names in a folder durable (fsync(2)). Not every server opens a folder: then it is left to the server. */
export async function syncFolder(session: Session, path: string): Promise<void> {
  const handle = await session.open(path, 'r').catch((error: unknown) => {
    if (hasStatus(error, STATUS.failure) || hasStatus(error, STATUS.denied)) return undefined;
    return unlessMissing(error);
  });
  if (handle === undefined) return;
  try {
    await session.sync(handle).catch((error: unknown) => {
      if (!hasStatus(error, STATUS.failure) && !hasStatus(error, STATUS.badMessage)) throw error;
    });
  } finally {
    closeLater(session, handle);
  }
}

/** The folder of an object, below the store. */
export function folderOf(key: string): string {
  return key.slice(0, Math.max(0, key.lastIndexOf('/')));
}

/** Calls `act`, and once more after making the folder that it lacks. Never makes the store itself. */
export async function inFolder<T>(
  session: Session,
  place: Place,
  folder: string,
  act: () => Promise<T>,
): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (!hasStatus(error, STATUS.missing) || folder === '') throw error;
  }
  await check(session, place);
  await makeFolders(session, `${place.directory}/${folder}`, folderMode(place, folder));
  return act();
}
