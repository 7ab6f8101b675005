// Sweeps what ended processes have left: temporaries with their notes, and metadata that nobody needs any more. Others may
// have put any number of names there, and a run waits for its sweeps before its task starts: so it reads the names page by
// page, keeps only those that are about to go, and leaves the rest for the next time when its time is over.
import { forEachAtOnce, untilAborted } from '../../model/waiting.ts';
import { clockMs } from '../../native/clock.ts';
import type { IsMine } from '../contract/store.ts';
import { dropListed, parsedMeta, readOwn } from './metadata.ts';
import { check, GOING_SUFFIX, META_SUFFIX, type Place, request, temporaries } from './place.ts';
import { type Entry, kindOf, type Session, unlessMissing, unlessRefused } from './session.ts';

/** Each is a round trip or a few. */
const AT_ONCE = 16;
/** Names of each kind that one sweep keeps. */
const MOST_KEPT = 10_000;
/** A note that cannot be read is of a put that was killed while it wrote it, or of one that is just doing so. */
const UNREADABLE_FOR_S = 24 * 3600;
/** A temporary that was renamed (draft.ts), and its first name. */
const RENAMED = /^(.+)\.\d+$/;

interface Sweep {
  readonly session: Session;
  readonly place: Place;
  readonly isMine: IsMine;
  /** Throws if the caller has given up. */
  readonly isOver: () => boolean;
}

interface Found {
  /** First names of temporaries that may go. */
  readonly due: string[];
  readonly unreadable: Entry[];
  /** By first name. */
  readonly renamed: Map<string, string[]>;
  readonly lists: Entry[];
  newestS: number;
  /** `renamed` has all that are there. */
  isWhole: boolean;
}

/** Removes the temporaries of interrupted puts for keys that are `mine`. Foreign files stay. */
export async function sweep(
  place: Place,
  prefix: string,
  mine: IsMine,
  signal: AbortSignal | undefined,
): Promise<true> {
  const { known } = place;
  const isMine: IsMine = async (key) => key.startsWith(prefix) && (await mine(key));
  const swept = request(place, { verb: 'sweep', key: prefix, signal }, async (session): Promise<true> => {
    await check(session, place);
    const startMs = clockMs();
    const leftMs = known.sweepsLeftMs;
    const after = (ms: number) => (): boolean => {
      signal?.throwIfAborted();
      return clockMs() - startMs >= ms;
    };
    try {
      // The other half is for what it finds.
      const found = await lookThrough({ session, place, isMine, isOver: after(leftMs / 2) });
      await removeDue(session, place, found, after(leftMs));
      await dropListed(session, place, found.lists, after(leftMs));
    } finally {
      known.sweepsLeftMs -= clockMs() - startMs;
    }
    return true;
  });
  return untilAborted(swept, signal);
}

async function lookThrough(sweep: Sweep): Promise<Found> {
  const { session, place, isOver } = sweep;
  const found: Found = {
    due: [],
    unreadable: [],
    renamed: new Map(),
    lists: [],
    newestS: 0,
    isWhole: false,
  };
  let renamed = 0;
  try {
    for await (const page of session.entries(temporaries(place))) {
      for (const entry of page) {
        const [, first] = RENAMED.exec(entry.name) ?? [];
        found.newestS = Math.max(found.newestS, entry.mtimeS);
        if (entry.name.endsWith(GOING_SUFFIX) && kindOf(entry) === 'file') keep(found.lists, entry);
        if (first === undefined) continue;
        renamed += 1;
        if (renamed > MOST_KEPT) continue;
        const names = found.renamed.get(first) ?? [];
        names.push(entry.name);
        found.renamed.set(first, names);
      }
      const notes = page.filter(({ name }) => name.endsWith(META_SUFFIX));
      await forEachAtOnce(notes, AT_ONCE, (note) => lookAt(sweep, found, note));
      if (isOver()) return found;
    }
  } catch (error) {
    unlessMissing(error);
  }
  found.isWhole = renamed <= MOST_KEPT;
  const old = found.unreadable.filter(({ mtimeS }) => mtimeS < found.newestS - UNREADABLE_FOR_S);
  found.due.push(...old.map(firstNameOf));
  return found;
}

function keep<T>(kept: T[], one: T): void {
  if (kept.length < MOST_KEPT) kept.push(one);
}

function firstNameOf({ name }: Entry): string {
  return name.slice(0, -META_SUFFIX.length);
}

async function lookAt({ session, place, isMine, isOver }: Sweep, found: Found, note: Entry): Promise<void> {
  if (found.due.length >= MOST_KEPT || kindOf(note) !== 'file' || isOver()) return;
  const text = await readOwn(session, `${temporaries(place)}/${note.name}`).catch(unlessRefused);
  // Undefined: the put has ended since.
  if (text === undefined) return;
  const key = parsedMeta(text)?.key;
  if (key === undefined) keep(found.unreadable, note);
  else if (await isMine(key)) keep(found.due, firstNameOf(note));
}

async function removeDue(
  session: Session,
  place: Place,
  { due, renamed, isWhole }: Found,
  isOver: () => boolean,
): Promise<void> {
  const remove = (name: string): Promise<void> =>
    session.remove(`${temporaries(place)}/${name}`).catch(unlessMissing);
  const removeAll = async (first: string): Promise<void> => {
    for (const name of [first, ...(renamed.get(first) ?? [])]) await remove(name);
    // The note last: it tells the next sweep what this one has left, or has not seen.
    if (isWhole) await remove(first + META_SUFFIX);
  };
  await forEachAtOnce(due, AT_ONCE, async (first) => {
    if (!isOver()) await removeAll(first).catch(unlessRefused);
  });
}
