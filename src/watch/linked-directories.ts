// Symbolic links to directories: no walk and no watch goes behind them. Notes those at which a declared pattern may lead
// on, and looks behind them on demand. Only names are read there, also outside the work directory.
import fs from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { errnoOf, reasonOf } from '../model/errors.ts';
import { IS_LINKED } from '../model/file/link-target.ts';
import { decodePath, encodePath, joinPath, type RelPath, showPath } from '../model/path.ts';
import { currentPath, heldPath, lstatBeneath, type WorkDir } from '../native/beneath.ts';
import { type DirectoryEntry, entriesIn } from '../native/directory-entries.ts';

/** The limit of links that are noted. */
const MOST_LINKS = 10_000;
/** Outside the work directory there may be anything: the limit of names that are read there for each link. */
const MOST_OUTSIDE = 10_000;
/** The limit of names that are read at one time. */
const MOST_NAMES = 1_000_000;
/** So many links may stand one behind the other. In a web of links there would be endless paths. */
const MOST_IN_A_ROW = 2;
/** Names between two pauses. */
const NAMES_PER_TURN = 512;

/** A declared file behind a link, or the link itself if nobody can tell what is behind it. */
export interface BehindLink {
  readonly path: RelPath;
  readonly why: string;
}

/** `real`: the file's path without the link; undefined if it is outside the work directory. */
type IsLost = (path: RelPath, real: RelPath | undefined) => boolean;

interface NameBehind {
  readonly path: RelPath;
  readonly real: RelPath | undefined;
  /** Where it is. */
  readonly at: string;
  /** A regular file or a link. */
  readonly isFile: boolean;
}

export interface LinkInterest {
  /** True for a directory that can contain a file to store, at any depth. */
  canHold(dir: RelPath): boolean;
}

export class LinkedDirectories {
  readonly #root: WorkDir;
  readonly #interest: LinkInterest;
  readonly #links = new Set<RelPath>();
  #areTooMany = false;

  constructor(root: WorkDir, interest: LinkInterest) {
    this.#root = root;
    this.#interest = interest;
  }

  /** A walk saw this link. The directory that it leads to may be made later. */
  readonly note = (link: RelPath): void => {
    if (!this.#interest.canHold(link) || this.#links.has(link) || this.#leadsToFile(link)) return;
    if (this.#links.size < MOST_LINKS) this.#links.add(link);
    else this.#areTooMany = true;
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
    const lost: BehindLink[] = [];
    let names = 0;
    const targetOf = remembering(directoryAt);
    for (const link of this.#links) {
      for (const found of this.#behind(link, { isLost, sinceMs, targetOf })) {
        if (found !== undefined) lost.push(found);
        names += 1;
        if (names > MOST_NAMES) return [...lost, notSeen(`${MOST_NAMES} names behind`)];
        if (names % NAMES_PER_TURN !== 0) continue;
        // oxlint-disable-next-line no-await-in-loop -- the pause
        await setImmediate();
        signal.throwIfAborted();
      }
    }
    if (this.#areTooMany) lost.push(notSeen(`${MOST_LINKS}`));
    return lost;
  }

  /** The path of what this link leads to. Undefined if that is gone, or outside the work directory. */
  targetOf(link: RelPath): RelPath | undefined {
    try {
      const workdir = currentPath(this.#root.fd);
      return beneathOf(workdir, realPath(`${workdir}/${link}`));
    } catch {
      return undefined;
    }
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
  *#behind(link: RelPath, { isLost, sinceMs, targetOf }: Question): Generator<BehindLink | undefined> {
    if (!this.#isLink(link)) return void this.#links.delete(link);
    const workdir = currentPath(this.#root.fd);
    let outside = 0;
    try {
      for (const { path, real, at, isFile } of this.#namesBehind(link, workdir, targetOf)) {
        const isInput = (): boolean => real === undefined && changedMs(at) < sinceMs;
        if (isFile && isLost(path, real) && !isInput())
          return yield { path, why: `${showPath(link)} ${IS_LINKED}` };
        if (real === undefined) outside += 1;
        if (outside > MOST_OUTSIDE) return yield tooManyOutside(link);
        yield undefined;
      }
    } catch (error) {
      yield { path: link, why: `it ${IS_LINKED}, and nobody can look into it: ${reasonOf(error)}` };
    }
  }

  /** Every name behind the link that a declared pattern may reach. */
  *#namesBehind(link: RelPath, workdir: string, targetOf: TargetOf): Generator<NameBehind> {
    const waiting: { readonly path: RelPath; readonly at: string; readonly links: readonly string[] }[] = [];
    const follow = (path: RelPath, at: string, links: readonly string[]): void => {
      const target = this.#interest.canHold(path) ? targetOf(at) : undefined;
      // A link of this chain may lead there already: it would go round for ever.
      if (target === undefined || links.includes(target)) return;
      if (links.length < MOST_IN_A_ROW)
        return void waiting.push({ path, at: target, links: [...links, target] });
      // A walk has met this link, too, and it is looked behind on its own.
      const real = beneathOf(workdir, at);
      if (real === undefined || !this.#interest.canHold(real))
        throw new Error(`more than ${MOST_IN_A_ROW} links stand one behind the other`);
    };
    follow(link, `${workdir}/${link}`, []);
    for (let dir = waiting.pop(); dir !== undefined; dir = waiting.pop()) {
      const real = beneathOf(workdir, dir.at);
      for (const entry of entriesOf(dir.at)) {
        const path = joinPath(dir.path, entry.name);
        const at = `${dir.at}/${entry.name}`;
        if (entry.isDirectory() && this.#interest.canHold(path)) waiting.push({ ...dir, path, at });
        if (entry.isSymbolicLink()) follow(path, at, dir.links);
        yield {
          path,
          at,
          real: real === undefined ? undefined : joinPath(real, entry.name),
          isFile: entry.isFile() || entry.isSymbolicLink(),
        };
      }
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

/** When it was last changed, by its file system; Infinity if it is gone by now. */
function changedMs(at: string): number {
  return fs.lstatSync(encodePath(at), { throwIfNoEntry: false })?.ctimeMs ?? Infinity;
}

/** Where the link leads; undefined if nothing is there. */
function statOf(at: string): fs.Stats | undefined {
  try {
    return fs.statSync(encodePath(at), { throwIfNoEntry: false });
  } catch (error) {
    if (['ELOOP', 'ENOTDIR', 'ENOENT'].includes(errnoOf(error) ?? '')) return undefined;
    throw error;
  }
}

function realPath(at: string): string {
  return decodePath(fs.realpathSync.native(encodePath(at), { encoding: 'buffer' }));
}

/** Of one look behind all links. */
interface Question {
  readonly isLost: IsLost;
  readonly sinceMs: number;
  readonly targetOf: TargetOf;
}

type TargetOf = (at: string) => string | undefined;

/** The real path of the directory that the link at `at` leads to; undefined if it leads to none. */
function directoryAt(at: string): string | undefined {
  return statOf(at)?.isDirectory() === true ? realPath(at) : undefined;
}

function remembering(look: TargetOf): TargetOf {
  const known = new Map<string, string | undefined>();
  return (at) => {
    if (!known.has(at)) known.set(at, look(at));
    return known.get(at);
  };
}

/** The path relative to the work directory; undefined if it is not beneath it. */
function beneathOf(workdir: string, at: string): RelPath | undefined {
  if (at === workdir) return '';
  return at.startsWith(`${workdir}/`) ? at.slice(workdir.length + 1) : undefined;
}

/** The task wrote nothing in a directory of another user that we may not read. */
function* entriesOf(at: string): Generator<DirectoryEntry> {
  try {
    yield* entriesIn(encodePath(at));
  } catch (error) {
    const stat = statOf(at);
    if (stat !== undefined && (errnoOf(error) !== 'EACCES' || stat.uid === process.getuid?.())) throw error;
  }
}
