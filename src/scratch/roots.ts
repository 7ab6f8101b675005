// The scratch directories of our user in a directory for all, and what runners have kept there of failed indices.
import fs from 'node:fs';
import path from 'node:path';
import { fileSystemType, networkFileSystem } from '../native/network-files.ts';
import { holdPrivateDir } from '../native/private-dir.ts';
import { removeTree } from '../native/remove-tree.ts';
import { FAILED, type HeldDir, isSurelyStored, PREFIX, removeRoot } from './left-work.ts';

/** Entries that are read before other work has its turn. */
const NAMES_PER_READ = 512;

/**
 * The scratch directories below `base` that may be our user's. Others may have made any number of theirs in a directory
 * for all.
 */
export async function* rootsIn(base: string): AsyncGenerator<string> {
  const us = ownerIn(base);
  for await (const { name } of await fs.promises.opendir(base, { bufferSize: NAMES_PER_READ })) {
    if (!name.startsWith(PREFIX)) continue;
    const root = path.join(base, name);
    if (mayBeOf(root, us)) yield root;
  }
}

/** Undefined if what we make there may have another owner: the server of a network file system may choose one. */
function ownerIn(base: string): number | undefined {
  return networkFileSystem(fileSystemType(base)) === undefined ? process.geteuid?.() : undefined;
}

function mayBeOf(root: string, owner: number | undefined): boolean {
  if (owner === undefined) return true;
  try {
    return fs.lstatSync(root, { throwIfNoEntry: false })?.uid === owner;
  } catch {
    return false; // we can always look at our own; at another user's mount we may not (EACCES), and a dead one fails
  }
}

/** The list is made again when so many times as long has passed as it took: others may have put any number of names there. */
const REST = 20;

/** What runners of our user have kept below `base`. */
export class KeptWork {
  readonly #base: string;
  #roots: Promise<readonly string[]> | undefined;
  /** As `performance.now()`; no number while the list is being made. */
  #staleAt = Number.POSITIVE_INFINITY;

  constructor(base: string) {
    this.#base = base;
  }

  /**
   * Removes what has been kept of this index when it had failed, except for files that are stored nowhere else. `isOf`
   * says from the kept log whether it is the log of this index of this array.
   */
  async remove(index: number, isOf: (log: string) => boolean): Promise<void> {
    const logName = new RegExp(`^${index}(?:-\\d+)?${FAILED.replace('.', '\\.')}\\.log$`);
    if (performance.now() >= this.#staleAt) this.#roots = undefined;
    this.#roots ??= this.#list();
    const us = ownerIn(this.#base);
    for (const root of await this.#roots) {
      // Another user may have taken the name since.
      if (!mayBeOf(root, us)) continue;
      let held: HeldDir;
      try {
        held = holdPrivateDir(root);
      } catch {
        continue; // another user's, or removed meanwhile
      }
      try {
        for await (const { name } of await fs.promises.opendir(held.at)) {
          const [log, dir] = [`${held.at}/${name}`, `${held.at}/${name.slice(0, -'.log'.length)}`];
          if (!logName.test(name) || !isOf(log) || !isSurelyStored(dir)) continue;
          await removeTree(dir);
          await removeTree(log);
        }
        removeRoot(root);
      } finally {
        held.close();
      }
    }
  }

  async #list(): Promise<readonly string[]> {
    this.#staleAt = Number.POSITIVE_INFINITY;
    const begin = performance.now();
    const roots: string[] = [];
    try {
      for await (const root of rootsIn(this.#base)) roots.push(root);
      return roots;
    } finally {
      const end = performance.now();
      this.#staleAt = end + REST * (end - begin);
    }
  }
}
