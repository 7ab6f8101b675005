// One store: a directory of a server, as `src/store/file` has it. An object is a plain file under its key. Our own files are
// in `.capture-store`: temporaries, and for each state of an object a file with its metadata (metadata.ts).
import { randomUUID } from 'node:crypto';
import { posix } from 'node:path';
import type { LimitFunction } from 'p-limit';
import { TASKS_PREFIX } from '../../model/format/keys.ts';
import { isInside } from '../../model/path.ts';
import { untilAborted } from '../../model/waiting.ts';
import { retrying } from '../contract/driver.ts';
import { type ObjectMeta, type OnTry, StoreError, type StoreUse } from '../contract/store.ts';
import type { SftpConnection } from './connection.ts';
import { failureFor } from './failure.ts';
import { hasStatus, kindOf, type Session, STATUS, unlessMissing } from './session.ts';

/** At the root of the store. Keys of capture start with `.capture/`, never with this name. */
export const OURS = '.capture-store';
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
  /** What all sweeps together may still take. */
  sweepsLeftMs: number;
}

/** A run waits for its sweeps before its task starts. */
const SWEEPS_MS = 10_000;

export function newKnown(directory: string): Known {
  const goingList = { path: `${directory}/${OURS}/tmp/${randomUUID()}${GOING_SUFFIX}`, bytes: 0 };
  return {
    isThere: false,
    isMade: false,
    isShared: false,
    clockAheadS: undefined,
    going: [],
    goingList,
    sweepsLeftMs: SWEEPS_MS,
  };
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
export const GOING_SUFFIX = '.going';

/** Nobody waits for the answer: a handle that stays open ends with the session. */
export function closeLater(session: Session, handle: Buffer): void {
  session.close(handle).catch(() => undefined);
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
