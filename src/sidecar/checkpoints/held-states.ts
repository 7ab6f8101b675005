// The states that the set under way still has to send, each with an open descriptor. A program that keeps only its
// newest checkpoints may unlink or replace a name long before a slow link has sent it; the bytes stay readable through
// the descriptor. This costs the disk space of removed files until the set is sent. Files of a file server are never
// held: there, an unlinked file that is open keeps its directory from being removed.
import fs from 'node:fs';
import { type FileFacts, sameFingerprint } from '../../model/file/file-state.ts';
import type { RelPath } from '../../model/path.ts';
import { heldPath, type WorkDir } from '../../native/beneath.ts';
import { factsOf, openBeneath } from '../../native/files.ts';
import { fileSystemType, networkFileSystem } from '../../native/network-files.ts';
import { shareOfOpenFiles } from '../../native/processes.ts';
import type { HeldState } from '../../read/reading.ts';
import { isAsHeld } from '../../read/snapshot.ts';

/** If a set has more files, the others are read while their names exist. */
const MOST_HELD = 256;

interface HeldFile extends HeldState {
  /** The number of closes that this state covers. */
  readonly closes: number;
  readers: number;
  isReleased: boolean;
}

export class HeldStates {
  readonly #root: WorkDir;
  readonly #held = new Map<RelPath, HeldFile>();
  #isRemote: boolean | undefined;

  constructor(root: WorkDir) {
    this.#root = root;
  }

  /** Holds this state of the file, if the file still has it. `closes`: how many closes the state covers. */
  hold(path: RelPath, state: FileFacts, closes: number): void {
    this.#isRemote ??= networkFileSystem(fileSystemType(heldPath(this.#root))) !== undefined;
    if (this.#isRemote || this.#held.size >= shareOfOpenFiles(MOST_HELD)) return;
    this.release(path);
    const fd = this.#open(path, state);
    if (fd !== undefined) this.#held.set(path, { fd, facts: state, closes, readers: 0, isReleased: false });
  }

  /** What a push of this file must read, if not the file at its path. */
  of(path: RelPath): (HeldState & { readonly closes: number }) | undefined {
    return this.#held.get(path);
  }

  /** True while the held file has not been written to. */
  isWhole(path: RelPath): boolean {
    const held = this.#held.get(path);
    return held !== undefined && isAsHeld(this.#root, path, factsOf(held.fd), held.facts);
  }

  /** The descriptor stays open while `read` runs. */
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
      // The file is gone, a link, or not ours to read: the push finds out.
    }
    if (fd !== undefined) fs.closeSync(fd);
    return undefined;
  }
}

/** A reader opens the file again by this number: while one is reading, nothing else may get the number. */
function closeUnused({ fd, readers, isReleased }: HeldFile): void {
  if (isReleased && readers === 0) fs.closeSync(fd);
}
