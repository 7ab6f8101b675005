// Every name behind a symbolic link to a directory that a declared pattern may reach. No other file server than that of
// the work directory is waited for: native/file-servers asks it aside.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import { decodePath, encodePath, joinPath, type RelPath } from '../model/path.ts';
import { untilAborted } from '../model/waiting.ts';
import { type DirectoryEntry, entriesIn } from '../native/directory-entries.ts';
import {
  changedMsLater,
  directoryLater,
  entriesLater,
  type FileServers,
  leadsNowhere,
  statLater,
} from '../native/file-servers.ts';
import type { Mount } from '../native/mounts.ts';

/** Outside the work directory there may be anything: the limit of names that are read there for each link. */
export const MOST_OUTSIDE = 10_000;
/** So many links may stand one behind the other. In a web of links there would be endless paths. */
const MOST_IN_A_ROW = 2;

export interface LinkInterest {
  /** True for a directory that can contain a file to store, at any depth. */
  canHold(dir: RelPath): boolean;
}

export interface NameBehind {
  readonly path: RelPath;
  readonly real: RelPath | undefined;
  /** The real path of the directory where it is. */
  readonly dir: string;
  readonly name: string;
  /** A regular file or a link. */
  readonly isFile: boolean;
}

/** A directory to look into: `at`, or what the link of this name there leads to. `links`: what the chain leads to. */
interface Waiting {
  readonly path: RelPath;
  readonly at: string;
  readonly link: string | undefined;
  readonly links: readonly string[];
}

/** One look behind links; it remembers where each leads. */
export class BehindLinks {
  readonly #workdir: string;
  readonly #interest: LinkInterest;
  readonly #servers: FileServers;
  readonly #signal: AbortSignal;
  /** By path. */
  readonly #targets = new Map<string, Promise<string | undefined>>();

  /** `workdir`: its path now. After `signal` nothing is waited for. */
  constructor(
    workdir: string,
    interest: LinkInterest,
    { servers, signal }: { readonly servers: FileServers; readonly signal: AbortSignal },
  ) {
    this.#workdir = workdir;
    this.#interest = interest;
    this.#servers = servers;
    this.#signal = signal;
  }

  /** Directory by directory. Throws as opendir(3), and NoAnswer. */
  async *names(link: RelPath): AsyncGenerator<Iterable<NameBehind>> {
    const waiting: Waiting[] = [{ path: link, at: this.#workdir, link, links: [] }];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      // oxlint-disable-next-line no-await-in-loop -- one directory after the other
      const dir = await this.#followed(next);
      // oxlint-disable-next-line no-await-in-loop -- one directory after the other
      if (dir !== undefined) yield this.#namesIn(dir, await this.#entriesOf(dir.at), waiting);
    }
  }

  /** Undefined if it leads to no directory that is to be looked into. */
  async #followed(dir: Waiting): Promise<Waiting | undefined> {
    const { path, at, link, links } = dir;
    if (link === undefined) return dir;
    const target = await this.#targetOf(at, link);
    // A link of this chain may lead there already: it would go round for ever.
    if (target === undefined || links.includes(target)) return undefined;
    if (links.length < MOST_IN_A_ROW) return { path, at: target, link: undefined, links: [...links, target] };
    // A walk has met this link, too, and it is looked behind on its own.
    const real = beneathOf(this.#workdir, `${at}/${link}`);
    if (real === undefined || !this.#interest.canHold(real))
      throw new Error(`more than ${MOST_IN_A_ROW} links stand one behind the other`);
    return undefined;
  }

  *#namesIn(
    { path: above, at, links }: Waiting,
    entries: Iterable<DirectoryEntry>,
    waiting: Waiting[],
  ): Generator<NameBehind> {
    const real = beneathOf(this.#workdir, at);
    for (const entry of entries) {
      const { name } = entry;
      const path = joinPath(above, name);
      const mayLeadOn = (entry.isDirectory() || entry.isSymbolicLink()) && this.#interest.canHold(path);
      if (mayLeadOn && entry.isDirectory())
        waiting.push({ path, at: `${at}/${name}`, link: undefined, links });
      else if (mayLeadOn) waiting.push({ path, at, link: name, links });
      yield {
        path,
        real: real === undefined ? undefined : joinPath(real, name),
        dir: at,
        name,
        isFile: entry.isFile() || entry.isSymbolicLink(),
      };
    }
  }

  #ask<T>(server: Mount, question: () => Promise<T>): Promise<T> {
    return untilAborted(this.#servers.ask(server, question), this.#signal);
  }

  #targetOf(dir: string, link: string): Promise<string | undefined> {
    const at = `${dir}/${link}`;
    const target = this.#targets.get(at) ?? this.#directoryAt(dir, link);
    this.#targets.set(at, target);
    return target;
  }

  /** The real path of the directory that the link `link` in `dir` leads to; undefined if it leads to none. */
  async #directoryAt(dir: string, link: string): Promise<string | undefined> {
    const at = `${dir}/${link}`;
    const server = this.#servers.onTheWay(dir, link);
    if (server !== undefined) return this.#ask(server, () => directoryLater(at));
    return statOf(at)?.isDirectory() === true ? realPath(at) : undefined;
  }

  /** The task wrote nothing in a directory of another user that we may not read. */
  async #entriesOf(dir: string): Promise<Iterable<DirectoryEntry>> {
    const server = this.#servers.onTheWay(dir);
    if (server === undefined) return entriesOf(dir);
    return this.#ask(server, async () => {
      try {
        return await entriesLater(dir, MOST_OUTSIDE + 1);
      } catch (error) {
        if (mayMatter(await statLater(dir), error)) throw error;
        return [];
      }
    });
  }

  /** When it was last changed, by its file system; Infinity if it is gone by now. */
  async changedMs(dir: string, name: string): Promise<number> {
    const at = `${dir}/${name}`;
    const server = this.#servers.onTheWay(dir);
    if (server !== undefined) return this.#ask(server, () => changedMsLater(at));
    return fs.lstatSync(encodePath(at), { throwIfNoEntry: false })?.ctimeMs ?? Infinity;
  }
}

/** Where the link leads; undefined if nothing is there. */
export function statOf(at: string): fs.Stats | undefined {
  try {
    return fs.statSync(encodePath(at), { throwIfNoEntry: false });
  } catch (error) {
    if (leadsNowhere(error)) return undefined;
    throw error;
  }
}

export function realPath(at: string): string {
  return decodePath(fs.realpathSync.native(encodePath(at), { encoding: 'buffer' }));
}

/** The path relative to the work directory; undefined if it is not beneath it. */
export function beneathOf(workdir: string, at: string): RelPath | undefined {
  if (at === workdir) return '';
  return at.startsWith(`${workdir}/`) ? at.slice(workdir.length + 1) : undefined;
}

function* entriesOf(at: string): Generator<DirectoryEntry> {
  try {
    yield* entriesIn(encodePath(at));
  } catch (error) {
    if (mayMatter(statOf(at), error)) throw error;
  }
}

/** False if the directory is gone, or another user's whom we may not read from. */
function mayMatter(stat: fs.Stats | undefined, error: unknown): boolean {
  return stat !== undefined && (errnoOf(error) !== 'EACCES' || stat.uid === process.getuid?.());
}
