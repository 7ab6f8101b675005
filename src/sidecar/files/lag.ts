// How old the oldest closed content is that is not durable yet: said in the log when it is more than a short
// while. Has a timer only while something waits.
import { isOver } from '../../core/decide.ts';
import type { Track } from '../../core/track.ts';
import { showPath } from '../../core/path.ts';
import { formatMs, plural } from '../../core/units.ts';
import type { Log } from '../../log.ts';

/** From here on it is said, and again each time that it has doubled. */
const SAID_FROM_MS = 10_000;

interface Waiting {
  readonly track: Track;
  readonly sinceMs: number;
}

export class Lag {
  readonly #log: Log;
  readonly #now: () => number;
  readonly #waiting = new Map<string, Waiting>();
  #sayFromMs = SAID_FROM_MS;
  #timer: NodeJS.Timeout | undefined;

  constructor(log: Log, now: () => number) {
    this.#log = log;
    this.#now = now;
  }

  /** Closed files whose content is not durable, with a writer or without. */
  get tracks(): readonly Track[] {
    return [...this.#waiting.values()].map(({ track }) => track);
  }

  /** To be told of every change of a track. */
  changed(track: Track): void {
    const key = `${track.role}:${track.path}`;
    const before = this.#waiting.get(key);
    if (isOver(track, track.closes)) {
      if (this.#waiting.delete(key) && this.#waiting.size === 0) this.#caughtUp();
      return;
    }
    // What was closed while the older content was being sent is younger.
    const goesOn = before !== undefined && before.track.durableCloses === track.durableCloses;
    this.#waiting.set(key, {
      track,
      sinceMs: goesOn ? before.sinceMs : (track.lastClose?.atMs ?? this.#now()),
    });
    this.#timer ??= setTimeout(() => this.#look(), SAID_FROM_MS);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#waiting.clear();
  }

  #look(): void {
    // What somebody writes again is not closed.
    const closed = [...this.#waiting.values()].filter(({ track }) => !track.blocked);
    const oldest = closed.reduce<Waiting | undefined>(
      (old, one) => (old === undefined || one.sinceMs < old.sinceMs ? one : old),
      undefined,
    );
    const ageMs = oldest === undefined ? 0 : this.#now() - oldest.sinceMs;
    if (oldest !== undefined && ageMs >= this.#sayFromMs) {
      this.#sayFromMs = ageMs * 2;
      this.#log.info(
        `behind by ${formatMs(ageMs)}: ${plural(closed.length, 'closed file')} not stored yet, ` +
          `the oldest is ${showPath(oldest.track.path)}`,
        { lagMs: ageMs, waiting: closed.length },
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
