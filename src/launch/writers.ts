// Which of the processes that the task left behind may still write a declared file. A process that shows its files is
// judged by them; where that is not enough, the kernel is asked which declared files have a writer.
import type fs from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { errnoOf } from '../model/errors.ts';
import type { Interest } from '../model/file/file-state.ts';
import { joinPath, type RelPath } from '../model/path.ts';
import { currentPath, holdDirectory, lstatBeneath, type WorkDir } from '../native/beneath.ts';
import { clockMs } from '../native/clock.ts';
import { type DirectoryEntry, entriesIn } from '../native/directory-entries.ts';
import { ignoreLeaseBreaks, writerOf, type WriterState } from '../native/files.ts';
import { FileSystems } from '../native/mounts.ts';
import { writableFiles } from '../native/open-files.ts';

/** Where leases do not work: a file that has not changed for so long has no writer, as for a snapshot. */
const AT_REST_MS = 1000;
/** Walks take at most one part in so many of the time. */
const SHARE = 10;
/** A look at a declared file takes some 20 us, another name a fraction of that. */
const ENTRIES_PER_TURN = 64;

/** How a file was when it was seen for the first time like this. */
interface Seen {
  readonly state: string;
  readonly sinceMs: number;
}

export class Writers {
  readonly #root: WorkDir;
  readonly #declared: Interest;
  /** Files for which the kernel gives no leases. */
  readonly #seen = new Map<RelPath, Seen>();
  #found: ReadonlySet<bigint> = new Set();
  #nextWalkMs = -Infinity;

  constructor(root: WorkDir, declared: Interest) {
    this.#root = root;
    this.#declared = declared;
  }

  /**
   * Those of these processes that have a declared file open for writing, or mapped so, under whatever name. A process
   * that we may not look into is one of them while a declared file has a writer that nobody accounts for.
   */
  async among(pids: readonly number[]): Promise<ReadonlySet<number>> {
    const below = `${currentPath(this.#root.fd)}/`;
    const writers = new Set<number>();
    const known = new Set<bigint>();
    /** By inode. Their names lead elsewhere: a bind mount, another mount namespace, a hard link, or another file. */
    const elsewhere = new Map<number, readonly bigint[]>();
    const hidden: number[] = [];
    /** The log of a batch job, for example, which every process of the task inherits. */
    const near = new FileSystems(this.#root);
    const ours = new Set(writableFiles(process.pid, near)?.map(({ inode }) => inode));
    for (const pid of pids) {
      const files = writableFiles(pid, near);
      if (files === undefined) hidden.push(pid);
      for (const { path, inode } of files ?? []) {
        if (!path.startsWith(below)) {
          if (!ours.has(inode)) elsewhere.set(pid, [...(elsewhere.get(pid) ?? []), inode]);
        } else if (this.#declared.wants(path.slice(below.length))) {
          writers.add(pid);
          known.add(inode);
        }
      }
    }
    if (hidden.length === 0 && [...elsewhere.keys()].every((pid) => writers.has(pid))) return writers;
    const written = await this.#written();
    for (const [pid, inodes] of elsewhere) {
      for (const inode of inodes) {
        if (!written.has(inode)) continue;
        writers.add(pid);
        known.add(inode);
      }
    }
    if ([...written].some((inode) => !known.has(inode))) for (const pid of hidden) writers.add(pid);
    return writers;
  }

  /** The inodes of all declared files that may have a writer. */
  async #written(): Promise<ReadonlySet<bigint>> {
    const beganMs = clockMs();
    if (beganMs < this.#nextWalkMs) return this.#found;
    ignoreLeaseBreaks();
    const found = new Set<bigint>();
    const waiting: RelPath[] = [''];
    for (let dir = waiting.pop(); dir !== undefined; dir = waiting.pop()) {
      let count = 0;
      for (const entry of this.#entries(dir)) {
        const path = joinPath(dir, entry.name);
        if (entry.isDirectory() && this.#declared.canHold(path)) waiting.push(path);
        else if (this.#declared.wants(path)) this.#look(path, found);
        count += 1;
        // oxlint-disable-next-line no-await-in-loop -- signals are relayed meanwhile
        if (count % ENTRIES_PER_TURN === 0) await setImmediate();
      }
      // oxlint-disable-next-line no-await-in-loop -- as above
      await setImmediate();
    }
    const endedMs = clockMs();
    this.#nextWalkMs = endedMs + (endedMs - beganMs) * SHARE;
    this.#found = found;
    return found;
  }

  *#entries(dir: RelPath): Generator<DirectoryEntry> {
    try {
      const held = holdDirectory(this.#root, dir);
      try {
        yield* entriesIn(held.at);
      } finally {
        held.close();
      }
    } catch (error) {
      if (errnoOf(error) === undefined) throw error; // gone, or out of reach
    }
  }

  #look(path: RelPath, found: Set<bigint>): void {
    try {
      const stat = lstatBeneath(this.#root, path);
      if (stat?.isFile() !== true) return;
      const writer = this.#writerOf(path);
      if (writer === 'writer' || (writer === 'unknown' && !this.#isAtRest(path, stat))) found.add(stat.ino);
    } catch (error) {
      if (errnoOf(error) === undefined) throw error; // gone, or replaced
    }
  }

  /** A file that we may not read gives no lease, either. */
  #writerOf(path: RelPath): WriterState {
    try {
      return writerOf(this.#root, path);
    } catch (error) {
      if (errnoOf(error) === 'EACCES') return 'unknown';
      throw error;
    }
  }

  #isAtRest(path: RelPath, { ino, size, ctimeNs }: fs.BigIntStats): boolean {
    const nowMs = clockMs();
    const state = [ino, size, ctimeNs].join(' ');
    const before = this.#seen.get(path);
    if (before?.state === state) return nowMs - before.sinceMs >= AT_REST_MS;
    this.#seen.set(path, { state, sinceMs: nowMs });
    return false;
  }
}
