// How old the oldest closed content is that is not durable yet: said in the log when it is more than a short
// while. Has a timer only while something waits.
import { isDoubted, isOver } from '../../core/decide.ts';
import { LATE_NEWS_MS } from '../../core/suspect.ts';
import type { Track, TrackRole } from '../../core/track.ts';
import { writeCount } from '../../core/rows/fields.ts';
import { Paths } from '../../core/rows/paths.ts';
import { RowMap, type RowCodec } from '../../core/rows/row-map.ts';
import { showPath, type RelPath } from '../../core/path.ts';
import { formatMs, plural } from '../../core/units.ts';
import type { Log } from '../../log.ts';

/** From here on it is said, and again each time that it has doubled. */
const SAID_FROM_MS = 10_000;

interface Waiting {
  readonly sinceMs: number;
  readonly durableCloses: number;
  /** What somebody writes again is not closed. */
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
  readonly #log: Log;
  readonly #now: () => number;
  readonly #waiting: Readonly<Record<TrackRole, RowMap<Waiting>>>;
  #sayFromMs = SAID_FROM_MS;
  #timer: NodeJS.Timeout | undefined;

  constructor(log: Log, now: () => number, paths = new Paths()) {
    this.#log = log;
    this.#now = now;
    this.#waiting = { result: new RowMap(waitingRow, paths), checkpoint: new RowMap(waitingRow, paths) };
  }

  /** Closed files whose content is not durable, with a writer or without. */
  *paths(): Generator<RelPath> {
    yield* this.#waiting.result.keys();
    yield* this.#waiting.checkpoint.keys();
  }

  /** To be told of every change of a track. */
  changed(track: Track): void {
    const waiting = this.#waiting[track.role];
    if (isOver(track, track.closes)) {
      if (waiting.delete(track.path) && this.#count === 0) this.#caughtUp();
      return;
    }
    const before = waiting.get(track.path);
    const { durableCloses, blocked } = track;
    // What was closed while the older content was being sent is younger.
    const goesOn = before !== undefined && before.durableCloses === durableCloses;
    const sinceMs = goesOn ? before.sinceMs : this.#mayBeSentFrom(track);
    waiting.set(track.path, { sinceMs, durableCloses, blocked });
    this.#timer ??= setTimeout(() => this.#look(), SAID_FROM_MS);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  /** A close that may be a death's is not late before that is settled. */
  #mayBeSentFrom(track: Track): number {
    const atMs = track.lastClose?.atMs ?? this.#now();
    return isDoubted(track) ? atMs + LATE_NEWS_MS : atMs;
  }

  get #count(): number {
    return this.#waiting.result.size + this.#waiting.checkpoint.size;
  }

  #look(): void {
    let closed = 0;
    let oldest: readonly [RelPath, Waiting] | undefined;
    for (const waiting of Object.values(this.#waiting)) {
      for (const one of waiting) {
        if (one[1].blocked) continue;
        closed += 1;
        if (oldest === undefined || one[1].sinceMs < oldest[1].sinceMs) oldest = one;
      }
    }
    const ageMs = oldest === undefined ? 0 : this.#now() - oldest[1].sinceMs;
    if (oldest !== undefined && ageMs >= this.#sayFromMs) {
      this.#sayFromMs = ageMs * 2;
      this.#log.info(
        `behind by ${formatMs(ageMs)}: ${plural(closed, 'closed file')} not stored yet, ` +
          `the oldest is ${showPath(oldest[0])}`,
        { lagMs: ageMs, waiting: closed },
      );
    }
    this.#timer = setTimeout(() => this.#look(), Math.max(1000, this.#sayFromMs - ageMs));
  }

  #caughtUp(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#sayFromMs > SAID_FROM_MS) this.#log.info('no longer behind');
    this.#sayFromMs = SAID_FROM_MS;
  }
}
