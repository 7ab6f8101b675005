// How far capture is behind: the age of the oldest closed content that is not durable yet.
import { isDoubted, isOver } from '../../model/file/decide.ts';
import type { FileRole, FileState } from '../../model/file/file-state.ts';
import { LATE_NEWS_MS } from '../../model/file/suspect.ts';
import { writeCount } from '../../model/packed/fields.ts';
import { PackedMap, Paths, type RowCodec } from '../../model/packed/packed-map.ts';
import type { RelPath } from '../../model/path.ts';

interface Waiting {
  readonly sinceMs: number;
  readonly durableCloses: number;
  /** While somebody writes the file again, it does not count as closed. */
  readonly blocked: boolean;
}

const waitingRow: RowCodec<Waiting> = {
  bytes: 13,
  write: ({ sinceMs, durableCloses, blocked }, row, at) => {
    row.writeDoubleLE(sinceMs, at);
    row[at + 12] = blocked ? 1 : 0;
    return writeCount(durableCloses, row, at + 8);
  },
  read: (row, at) => ({
    sinceMs: row.readDoubleLE(at),
    durableCloses: row.readUInt32LE(at + 8),
    blocked: row[at + 12] === 1,
  }),
};

export class Lag {
  readonly #now: () => number;
  readonly #waiting: Readonly<Record<FileRole, PackedMap<Waiting>>>;

  constructor(now: () => number, paths = new Paths()) {
    this.#now = now;
    this.#waiting = {
      result: new PackedMap(waitingRow, paths),
      checkpoint: new PackedMap(waitingRow, paths),
    };
  }

  /** Closed files whose content is not durable, with or without a writer. */
  *paths(): Generator<RelPath> {
    yield* this.#waiting.result.keys();
    yield* this.#waiting.checkpoint.keys();
  }

  /** Call it with every change of a file state. True if its content waits for the store. */
  changed(fileState: FileState): boolean {
    const waiting = this.#waiting[fileState.role];
    if (isOver(fileState, fileState.closes)) {
      waiting.delete(fileState.path);
      return false;
    }
    const before = waiting.get(fileState.path);
    const { durableCloses, blocked } = fileState;
    // What was closed while the older content was being sent is younger.
    const goesOn = before !== undefined && before.durableCloses === durableCloses;
    const sinceMs = goesOn ? before.sinceMs : this.#mayBeSentFrom(fileState);
    waiting.set(fileState.path, { sinceMs, durableCloses, blocked });
    return !blocked;
  }

  /** A close that may be a death's is not late until that is known. */
  #mayBeSentFrom(fileState: FileState): number {
    const atMs = fileState.lastClose?.atMs ?? this.#now();
    return isDoubted(fileState) ? atMs + LATE_NEWS_MS : atMs;
  }

  /** Of the files that wait for nothing but the store; undefined if there is none. */
  oldest(): { readonly ms: number; readonly files: number; readonly path: RelPath } | undefined {
    let files = 0;
    let oldest: readonly [RelPath, Waiting] | undefined;
    for (const waiting of Object.values(this.#waiting)) {
      for (const one of waiting) {
        if (one[1].blocked) continue;
        files += 1;
        if (oldest === undefined || one[1].sinceMs < oldest[1].sinceMs) oldest = one;
      }
    }
    if (oldest === undefined) return undefined;
    return { ms: Math.max(0, this.#now() - oldest[1].sinceMs), files, path: oldest[0] };
  }
}
