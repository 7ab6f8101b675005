// The metadata of objects, in files of their own. SFTP 3 shows neither inodes nor fractions of a second, so such a file is
// named after the key, size and time of its object. Two states of one key never share a name while anyone may look for it: a
// writer gives its state a time that is not before the server's clock, and takes the name with a hard link, which fails if
// the name is taken. A name is removed only when the clock is well past its time. So a reader that has opened a state finds
// the metadata of that state, or none.
import * as z from 'zod';
import { parseForeignJson } from '../../model/format/foreign-json.ts';
import { md5Of } from '../../model/md5.ts';
import { forEachAtOnce } from '../../model/waiting.ts';
import { clockMs } from '../../native/clock.ts';
import type { ObjectMeta } from '../contract/store.ts';
import { check, closeLater, newTemporary, OURS, ownMode, type Place, temporaries } from './place.ts';
import { type Attrs, type Session, unlessMissing, unlessRefused } from './session.ts';

/** Everything that a reader or writer does with a name takes less, or its session is given up. */
const RECENT_S = 900;
/** Metadata have 2 KiB at most, and a key 1 KiB. */
const OWN_PIECE_BYTES = 16 * 1024;
/** Of a list: 100,000 names. */
const MOST_LISTED_BYTES = 8 * 2 ** 20;
/** Each is a round trip. */
const REMOVED_AT_ONCE = 16;
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

/**
 * Removes what processes that have ended had to leave, until `isOver`. Nobody can take a name whose time is so long past.
 */
export async function dropListed(
  session: Session,
  place: Place,
  lists: readonly { readonly name: string; readonly mtimeS: number }[],
  isOver: () => boolean,
): Promise<void> {
  if (lists.length === 0 || isOver()) return;
  const latestS = (await serverTimeS(session, place)) - RECENT_S;
  for (const { name } of lists.filter(({ mtimeS }) => mtimeS < latestS)) {
    if (isOver()) return;
    const path = `${temporaries(place)}/${name}`;
    const text = await readOwn(session, path, MOST_LISTED_BYTES).catch(unlessRefused);
    if (text === undefined) continue;
    const names = text.split('\n').filter((one) => one !== '');
    const due = names.filter((one) => Number(GOING_NAME.exec(one)?.[1] ?? NaN) < latestS);
    await forEachAtOnce(due, REMOVED_AT_ONCE, async (one) => {
      if (!isOver()) await session.remove(`${place.directory}/${one}`).catch(unlessRefused);
    });
    if (due.length === names.length && !isOver()) await session.remove(path).catch(unlessRefused);
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
