// Opens a file that may stand behind links: users stage inputs with links. Whoever may write in a shared directory can
// plant a link to a file that only the reader can read, and capture would pass its bytes on. So a link is followed only
// if its owner gains nothing by that.
import { constants } from 'node:fs';
import fs from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { errnoOf } from '../model/errors.ts';
import { decodePath, encodePath } from '../model/path.ts';
import { O_PATH } from './beneath.ts';
import { systemError } from './libc.ts';
import { isOursOrRoots } from './users.ts';

/**
 * Whether a link under a key is followed. The target of a link is never stored under another key, where others could read
 * it.
 */
export type Links = 'followed' | 'refused';

export interface OpenFile {
  readonly file: fs.FileHandle;
  readonly isLink: boolean;
}

/** As the kernel: path_resolution(7). */
const MOST_LINKS = 40;

interface OpenRules {
  readonly links: Links;
  /** A further user whose links are followed: the owner of a store's directory. */
  readonly trusted: number | undefined;
}

/** A link that is not followed. */
export class StrangersLink extends Error {
  readonly hint = 'if the link is right, make it yourself, or put the file in its place';

  constructor(linkUid: number, fileUid: number) {
    super(`user ${linkUid} has made a link there, to a file of user ${fileUid}: it is not followed`);
    this.name = 'StrangersLink';
  }
}

/**
 * Never blocks on a FIFO (fifo(7)), which is no object. The owner of each link on the way, also of one in place of a
 * folder, must be the reader, root, `trusted`, or the owner of the file that it leads to. What is above the path itself
 * is not asked. Throws StrangersLink if not, ELOOP if `links` are refused or lead in a circle, and as open(2).
 */
export async function openFile(path: string, { links, trusted }: OpenRules): Promise<OpenFile> {
  try {
    return { file: await openNoLink(path), isLink: false };
  } catch (error) {
    if (errnoOf(error) !== 'ELOOP' || links === 'refused') throw error;
  }
  const strangers = new Set<number>();
  const file = await openThroughLinks(path, (uid) => {
    if (uid !== trusted && !isOursOrRoots(uid)) strangers.add(uid);
  });
  await refuseStrangers(file, strangers);
  return { file, isLink: true };
}

/** Holds each folder on the way (O_PATH), so that nobody can put a link in its place that is not seen. */
async function openThroughLinks(path: string, met: (uid: number) => void): Promise<fs.FileHandle> {
  let dir = await holdFolder(dirname(path));
  const left = [basename(path)];
  let hops = 0;
  try {
    for (;;) {
      const at = `/proc/self/fd/${dir.fd}/${left.pop()}`;
      // oxlint-disable-next-line no-await-in-loop -- one name leads to the next
      const next = await openOrLink(at, left.length > 0);
      if ('target' in next) {
        hops += 1;
        if (hops > MOST_LINKS) throw systemError('open', 'ELOOP', path);
        met(next.uid);
        // Not normalised: `link/..` is the parent of what the link leads to.
        left.push(
          ...next.target
            .split('/')
            .filter((name) => name !== '')
            .toReversed(),
        );
        if (!next.target.startsWith('/')) continue;
      } else if (left.length === 0) return next;
      const from = dir;
      // oxlint-disable-next-line no-await-in-loop -- one name leads to the next
      dir = 'target' in next ? await holdFolder('/') : next;
      // oxlint-disable-next-line no-await-in-loop -- one name leads to the next
      await from.close();
    }
  } finally {
    await dir.close();
  }
}

interface FoundLink {
  readonly uid: number;
  readonly target: string;
}

async function openOrLink(at: string, isFolder: boolean): Promise<fs.FileHandle | FoundLink> {
  try {
    return await (isFolder ? holdFolder(at, constants.O_NOFOLLOW) : openNoLink(at));
  } catch (error) {
    // A link is no folder either (open(2), O_PATH).
    if (errnoOf(error) !== (isFolder ? 'ENOTDIR' : 'ELOOP')) throw error;
    return readLink(at).catch((other: unknown) => {
      throw errnoOf(other) === 'EINVAL' ? error : other;
    });
  }
}

function holdFolder(path: string, how = 0): Promise<fs.FileHandle> {
  return fs.open(encodePath(path), O_PATH | constants.O_DIRECTORY | how);
}

function openNoLink(path: string): Promise<fs.FileHandle> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  return fs.open(encodePath(path), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
}

async function refuseStrangers(file: fs.FileHandle, strangers: ReadonlySet<number>): Promise<void> {
  if (strangers.size === 0) return;
  const { uid } = await file.stat();
  for (const stranger of strangers) {
    if (stranger === uid) continue;
    await file.close();
    throw new StrangersLink(stranger, uid);
  }
}

/** A link never changes, but another one may take its name: then it is read again. */
async function readLink(path: string): Promise<FoundLink> {
  const full = encodePath(path);
  for (;;) {
    const before = await fs.lstat(full, { bigint: true });
    const target = decodePath(await fs.readlink(full, { encoding: 'buffer' }));
    const after = await fs.lstat(full, { bigint: true });
    if (before.ino === after.ino && before.ctimeNs === after.ctimeNs)
      return { uid: Number(before.uid), target };
  }
}
