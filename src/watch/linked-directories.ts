// Symbolic links to directories: no walk and no watch goes behind them. Notes those at which a declared pattern may lead
// on, and looks behind them on demand. Only names are read there, also outside the work directory. No other file server
// than that of the work directory is waited for: native/file-servers asks it aside.
import { setImmediate } from 'node:timers/promises';
import { reasonOf } from '../model/errors.ts';
import { IS_LINKED } from '../model/file/link-target.ts';
import { type RelPath, showPath } from '../model/path.ts';
import { untilAborted } from '../model/waiting.ts';
import { currentPath, heldPath, lstatBeneath, type WorkDir } from '../native/beneath.ts';
import { FileServers, NoAnswer, statLater } from '../native/file-servers.ts';
import { BehindLinks, beneathOf, type LinkInterest, MOST_OUTSIDE, realPath, statOf } from './behind-links.ts';

/** The limit of links that are noted. */
const MOST_LINKS = 10_000;
/** The limit of links to other file servers that have not said yet whether they lead to a directory. */
const MOST_UNKNOWN = 200_000;
/** The limit of names that are read at one time. */
const MOST_NAMES = 1_000_000;
/** Names between two pauses. */
const NAMES_PER_TURN = 512;

/** A declared file behind a link, or the link itself if nobody can tell what is behind it. */
export interface BehindLink {
  readonly path: RelPath;
  readonly why: string;
}

/** `real`: the file's path without the link; undefined if it is outside the work directory. */
type IsLost = (path: RelPath, real: RelPath | undefined) => boolean;

export class LinkedDirectories {
  readonly #root: WorkDir;
  readonly #interest: LinkInterest;
  readonly #servers: FileServers;
  readonly #links = new Set<RelPath>();
  /** Those to other file servers wait here until they have said where they lead. */
  readonly #unknown = new Set<RelPath>();
  /** Those about which nobody has answered, and why. */
  readonly #silent = new Map<RelPath, string>();
  #asking: Promise<void> | undefined;
  #areTooMany = false;

  constructor(root: WorkDir, interest: LinkInterest, servers = new FileServers(root)) {
    this.#root = root;
    this.#interest = interest;
    this.#servers = servers;
  }

  /** A walk saw this link. The directory that it leads to may be made later. */
  readonly note = (link: RelPath): void => {
    if (!this.#interest.canHold(link) || this.#links.has(link)) return;
    if (this.#leadsToServer(link)) this.#askLater(link);
    else if (!this.#leadsToFile(link)) this.#keep(link);
  };

  /** An event reported this name, which may be a link. */
  appeared(path: RelPath): void {
    if (this.#interest.canHold(path) && this.#isLink(path)) this.note(path);
  }

  /**
   * For each link that still stands, the first file behind it that `isLost`. Outside the work directory, only what was
   * changed since the attempt began counts (`sinceMs`): the rest is somebody's input. Throws the reason of `signal` when
   * it aborts.
   */
  async lost(isLost: IsLost, sinceMs: number, signal: AbortSignal): Promise<readonly BehindLink[]> {
    const lost: BehindLink[] = [...(await this.#unanswered(signal))];
    let names = 0;
    const behind = new BehindLinks(currentPath(this.#root.fd), this.#interest, {
      servers: this.#servers,
      signal,
    });
    for (const link of this.#links) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other: each reads directories
      for await (const found of this.#behind(link, { isLost, sinceMs, behind, signal })) {
        if (found !== undefined) lost.push(found);
        names += 1;
        if (names > MOST_NAMES) return [...lost, notSeen(`${MOST_NAMES} names behind`)];
        if (names % NAMES_PER_TURN !== 0) continue;
        await setImmediate();
        signal.throwIfAborted();
      }
    }
    if (this.#areTooMany) lost.push(notSeen(`${MOST_LINKS}`));
    return lost;
  }

  /**
   * The path of what this link leads to. Undefined if that is gone, outside the work directory, or on another file server.
   */
  targetOf(link: RelPath): RelPath | undefined {
    try {
      const workdir = currentPath(this.#root.fd);
      if (this.#servers.onTheWay(workdir, link) !== undefined) return undefined;
      return beneathOf(workdir, realPath(`${workdir}/${link}`));
    } catch {
      return undefined;
    }
  }

  #keep(link: RelPath): void {
    if (this.#links.size < MOST_LINKS) this.#links.add(link);
    else this.#areTooMany = true;
  }

  #leadsToServer(link: RelPath): boolean {
    return this.#servers.onTheWay(currentPath(this.#root.fd), link) !== undefined;
  }

  #askLater(link: RelPath): void {
    if (this.#unknown.size + this.#silent.size < MOST_UNKNOWN) this.#unknown.add(link);
    else this.#areTooMany = true;
    void this.#ask();
  }

  #ask(): Promise<void> {
    return (this.#asking ??= this.#askAll().finally(() => {
      this.#asking = undefined;
    }));
  }

  /** Never throws. */
  async #askAll(): Promise<void> {
    for (const link of this.#unknown) {
      this.#silent.delete(link);
      try {
        // oxlint-disable-next-line no-await-in-loop -- a server is asked one question at a time
        if (!(await this.#leadsToFileThere(link))) this.#keep(link);
      } catch (error) {
        this.#silent.set(link, reasonOf(error));
      }
      this.#unknown.delete(link);
    }
  }

  async #leadsToFileThere(link: RelPath): Promise<boolean> {
    try {
      const workdir = currentPath(this.#root.fd);
      const server = this.#servers.onTheWay(workdir, link);
      if (server === undefined) return this.#leadsToFile(link);
      const stat = await this.#servers.ask(server, () => statLater(`${workdir}/${link}`));
      return stat?.isDirectory() === false;
    } catch (error) {
      if (error instanceof NoAnswer) throw error;
      return false; // as #leadsToFile
    }
  }

  /** The first link for each reason why nobody can tell what is behind it. */
  async #unanswered(signal: AbortSignal): Promise<readonly BehindLink[]> {
    for (const link of this.#silent.keys()) if (this.#isLink(link)) this.#unknown.add(link);
    this.#silent.clear();
    // oxlint-disable-next-line no-await-in-loop -- one may be noted while the last one is asked about
    while (this.#unknown.size > 0) await untilAborted(this.#ask(), signal);
    const first = new Map([...this.#silent].toReversed().map(([path, why]) => [why, path]));
    return [...first].map(([why, path]) => ({ path, why: `nobody can tell where this link leads: ${why}` }));
  }

  #leadsToFile(link: RelPath): boolean {
    try {
      return statOf(`${heldPath(this.#root)}/${link}`)?.isDirectory() === false;
    } catch {
      return false; // it leads through a directory that is out of reach
    }
  }

  #isLink(path: RelPath): boolean {
    try {
      return lstatBeneath(this.#root, path)?.isSymbolicLink() === true;
    } catch {
      return false; // a directory above it is a link itself, or out of reach
    }
  }

  /** A step for each name; the last one says what was found. */
  async *#behind(
    link: RelPath,
    { isLost, sinceMs, behind, signal }: Question,
  ): AsyncGenerator<BehindLink | undefined> {
    if (!this.#isLink(link)) return void this.#links.delete(link);
    let outside = 0;
    try {
      for await (const names of behind.names(link))
        for (const { path, real, dir, name, isFile } of names) {
          if (isFile && isLost(path, real)) {
            const isInput = real === undefined && (await behind.changedMs(dir, name)) < sinceMs;
            if (!isInput) return yield { path, why: `${showPath(link)} ${IS_LINKED}` };
          }
          if (real === undefined) outside += 1;
          if (outside > MOST_OUTSIDE) return yield tooManyOutside(link);
          yield undefined;
        }
    } catch (error) {
      signal.throwIfAborted();
      yield { path: link, why: `it ${IS_LINKED}, and nobody can look into it: ${reasonOf(error)}` };
    }
  }
}

function notSeen(most: string): BehindLink {
  return { path: '.', why: `more than ${most} symbolic links to directories: not all was looked at` };
}

function tooManyOutside(link: RelPath): BehindLink {
  return {
    path: link,
    why: `it ${IS_LINKED} outside, with more than ${MOST_OUTSIDE} names: what is declared there is not seen`,
  };
}

/** Of one look behind all links. */
interface Question {
  readonly isLost: IsLost;
  readonly sinceMs: number;
  readonly behind: BehindLinks;
  readonly signal: AbortSignal;
}
