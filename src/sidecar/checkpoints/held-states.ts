// The states that the set under way still has to send, each by an open descriptor: a program that keeps only its newest
// checkpoints may unlink or replace a name long before a slow link has carried it, and its bytes stay readable. Costs the
// disk space of what was removed until the set is sent, and never holds a file of a file server: there an unlinked file
// that is open keeps its directory from being removed.
import fs from 'node:fs';
import { type FileFacts, sameContentFingerprint, sameFingerprint } from '../../model/file/file-state.ts';
import type { RelPath } from '../../model/path.ts';
import { heldPath, type WorkDir } from '../../native/beneath.ts';
import { factsOf, openBeneath } from '../../native/files.ts';
import { fileSystemType, networkFileSystem } from '../../native/network-files.ts';
import { shareOfOpenFiles } from '../../native/processes.ts';
import type { HeldState } from '../../read/reading.ts';

/** Of a set with more files the others are read while their names are there. */
const MOST_HELD = 256;

interface Held extends HeldState {
  /** The closes of the file that this state covers. */
  readonly closes: number;
  readers: number;
  isReleased: boolean;
}

export class HeldStates {
  readonly #root: WorkDir;
  readonly #held = new Map<RelPath, Held>();
  #isRemote: boolean | undefined;

  constructor(root: WorkDir) {
    this.#root = root;
  }

  /** Holds this state of the file, if it still stands there. `closes`: how many closes it covers. */
  hold(path: RelPath, state: FileFacts, closes: number): void {
    this.#isRemote ??= networkFileSystem(fileSystemType(heldPath(this.#root))) !== undefined;
    if (this.#isRemote || this.#held.size >= shareOfOpenFiles(MOST_HELD)) return;
    this.release(path);
    const fd = this.#open(path, state);
    if (fd !== undefined) this.#held.set(path, { fd, facts: state, closes, readers: 0, isReleased: false });
  }

  /** What a push of this file is to read, if not what stands at its path. */
  of(path: RelPath): (HeldState & { readonly closes: number }) | undefined {
    return this.#held.get(path);
  }

  /** True while the file that is held has not been written to. */
  isWhole(path: RelPath): boolean {
    const held = this.#held.get(path);
    return held !== undefined && sameContentFingerprint(factsOf(held.fd), held.facts);
  }

  /** While `read` is under way, its descriptor stays open. */
  async whileRead<T>(path: RelPath, read: (held: HeldState | undefined) => Promise<T>): Promise<T> {
    const held = this.#held.get(path);
    if (held === undefined) return read(undefined);
    held.readers += 1;
    try {
      return await read(held);
    } finally {
      held.readers -= 1;
      closeUnused(held);
    }
  }

  release(path: RelPath): void {
    const held = this.#held.get(path);
    if (held === undefined) return;
    this.#held.delete(path);
    held.isReleased = true;
    closeUnused(held);
  }

  releaseAll(): void {
    for (const path of this.#held.keys()) this.release(path);
  }

  #open(path: RelPath, state: FileFacts): number | undefined {
    let fd: number | undefined;
    try {
      fd = openBeneath(this.#root, path);
      if (sameFingerprint(factsOf(fd), state)) return fd;
    } catch {
      // Gone, a link, not ours to read: the push finds out.
    }
    if (fd !== undefined) fs.closeSync(fd);
    return undefined;
  }
}

/** A reading opens the file again by this number: while one is under way, nothing else may get it. */
function closeUnused({ fd, readers, isReleased }: Held): void {
  if (isReleased && readers === 0) fs.closeSync(fd);
}
