// Opens a file that may stand behind links: users stage inputs with links. Whoever may write in a shared directory can
// plant a link to a file that only the reader can read, and capture would pass its bytes on. So a link is followed only
// if its owner gains nothing by that.
import { constants } from 'node:fs';
import fs from 'node:fs/promises';
import { dirname } from 'node:path';
import { errnoOf } from '../model/errors.ts';
import { decodePath, encodePath } from '../model/path.ts';
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
 * Never blocks on a FIFO (fifo(7)), which is no object. The owner of each link on the way must be the reader, root,
 * `trusted`, or the owner of the file that it leads to. Throws StrangersLink if not, ELOOP if `links` are refused
 * or lead in a circle, and as open(2).
 */
export async function openFile(path: string, { links, trusted }: OpenRules): Promise<OpenFile> {
  const strangers = new Set<number>();
  let at = path;
  for (let hops = 0; ; hops += 1) {
    try {
      // oxlint-disable-next-line no-await-in-loop -- one link leads to the next
      const file = await openNoLink(at);
      // oxlint-disable-next-line no-await-in-loop -- once
      await refuseStrangers(file, strangers);
      return { file, isLink: hops > 0 };
    } catch (error) {
      if (errnoOf(error) !== 'ELOOP' || links === 'refused' || hops === MOST_LINKS) throw error;
    }
    // oxlint-disable-next-line no-await-in-loop -- one link leads to the next
    const { uid, target } = await readLink(at);
    if (uid !== trusted && !isOursOrRoots(uid)) strangers.add(uid);
    // Not normalised: `link/..` is the parent of what the link leads to.
    at = target.startsWith('/') ? target : `${dirname(at)}/${target}`;
  }
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
async function readLink(path: string): Promise<{ readonly uid: number; readonly target: string }> {
  const full = encodePath(path);
  for (;;) {
    const before = await fs.lstat(full, { bigint: true });
    const target = decodePath(await fs.readlink(full, { encoding: 'buffer' }));
    const after = await fs.lstat(full, { bigint: true });
    if (before.ino === after.ino && before.ctimeNs === after.ctimeNs)
      return { uid: Number(before.uid), target };
  }
}
