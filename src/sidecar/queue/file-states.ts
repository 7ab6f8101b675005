// The tracks of a run as they are now, each a row: a task may write hundreds of thousands of files, and each of
// them may come again. What is asked of all of them again and again is counted.
import { isSettled } from '../../model/file/decide.ts';
import type { RelPath } from '../../model/path.ts';
import { provenFromMs } from '../../model/file/suspect.ts';
import { Paths } from '../../model/packed/paths.ts';
import { RowMap } from '../../model/packed/packed-map.ts';
import { trackRow } from '../../model/packed/file-states.ts';
import type { Track, TrackRole } from '../../model/file/file-state.ts';
import type { FileKey } from './pusher.ts';

const ROLES: readonly TrackRole[] = ['result', 'checkpoint'];

export class Tracks {
  readonly #paths: Paths;
  readonly #rows: Readonly<Record<TrackRole, RowMap<Track>>>;
  readonly #blocked = new Set<FileKey>();
  readonly #open = new Set<FileKey>();
  readonly #unproven = new Set<FileKey>();

  /** `paths`: shared with what else is known by path. */
  constructor(paths = new Paths()) {
    this.#paths = paths;
    this.#rows = {
      result: new RowMap(trackRow('result'), paths),
      checkpoint: new RowMap(trackRow('checkpoint'), paths),
    };
  }

  /** How many a drain still has to wait for. */
  get open(): number {
    return this.#open.size;
  }

  keyOf({ path, role }: Pick<Track, 'path' | 'role'>): FileKey {
    return this.#paths.idOf(path) * ROLES.length + ROLES.indexOf(role);
  }

  at(key: FileKey): Track | undefined {
    const role = ROLES[key % ROLES.length];
    return role === undefined
      ? undefined
      : this.get(this.#paths.pathOf(Math.floor(key / ROLES.length)), role);
  }

  get(path: RelPath, role: TrackRole): Track | undefined {
    return this.#rows[role].get(path);
  }

  set(track: Track): void {
    const key = this.keyOf(track);
    this.#rows[track.role].set(track.path, track);
    if (isOpen(track)) this.#open.add(key);
    else this.#open.delete(key);
    if (track.blocked) this.#blocked.add(key);
    else this.#blocked.delete(key);
    if (provenFromMs(track.lastClose, undefined) > 0) this.#unproven.add(key);
    else this.#unproven.delete(key);
  }

  /** One after the other; they may change meanwhile. */
  of(role: TrackRole): Iterable<Track> {
    return this.#rows[role].values();
  }

  paths(role: TrackRole): Iterable<RelPath> {
    return this.#rows[role].keys();
  }

  *all(): Generator<Track> {
    for (const role of ROLES) yield* this.of(role);
  }

  /** There before the task started, and not closed since; but for `others`. */
  *inherited(others: ReadonlySet<RelPath>): Generator<Track> {
    for (const track of this.all()) if (track.inherited !== undefined && !others.has(track.path)) yield track;
  }

  /** Those that the store has refused. */
  *refused(): Generator<Track> {
    for (const track of this.all()) if (track.pending && track.failedTries > 0) yield track;
  }

  /** Files whose content is not stored yet, or that somebody has open for writing. */
  *unsettled(role: TrackRole): Generator<Track> {
    for (const keys of [this.#blocked, this.#open])
      for (const key of keys) {
        const track = this.at(key);
        if (track?.role === role) yield track;
      }
  }

  /** Results that somebody has open for writing. */
  *blockedResults(): Generator<RelPath> {
    for (const key of this.#blocked) {
      const track = this.at(key);
      if (track?.role === 'result') yield track.path;
    }
  }

  /** Files whose last close may be a death's, however long ago it was. */
  *unproven(): Generator<Track> {
    for (const key of this.#unproven) {
      const track = this.at(key);
      if (track !== undefined) yield track;
    }
  }

  /** The closes of those whose content is not durable yet, by key. */
  behind(): ReadonlyMap<FileKey, number> {
    const behind = new Map<FileKey, number>();
    for (const track of this.all())
      if (track.durableCloses < track.closes) behind.set(this.keyOf(track), track.closes);
    return behind;
  }
}

/** A drain has to wait for it. */
export function isOpen(track: Track): boolean {
  return !isSettled(track) && !track.blocked;
}
