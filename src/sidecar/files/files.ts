// The declared files of this run: feeds what happened to decide(), and carries out what it says. Bounded
// pushes, one in flight for each file and role, one timer for all that waits.
import { decide, isSettled, type TrackEvent } from '../../core/decide.ts';
import { newTrack, type Track, type TrackRole } from '../../core/track.ts';
import { reasonOf } from '../../core/errors.ts';
import type { ClosedHow } from '../../core/events.ts';
import type { Fingerprint } from '../../core/fingerprint.ts';
import { isHeldBack, nextStep } from '../../core/next-step.ts';
import type { RelPath } from '../../core/path.ts';
import { Changes } from './changes.ts';
import { Needs, type Need } from './needs.ts';

/** Pushes under way at once: enough to hide a store's latency, few enough for its memory. */
const MOST_PUSHES = 8;

/** Carries out one push of a file and says how it ended. It never throws for a state of the file. */
export type Pusher = (track: Track, spoolFirst: boolean) => Promise<TrackEvent>;

export interface FilesOptions {
  readonly push: Pusher;
  readonly rolesOf: (path: RelPath) => readonly TrackRole[];
  readonly replaces: (path: RelPath) => boolean;
  readonly now: () => number;
  /** Called after each change of a track, with what it was before. */
  readonly onChange: (track: Track, before: Track) => void;
}

export class Files {
  readonly #options: FilesOptions;
  readonly #tracks = new Map<string, Track>();
  /** Keys of tracks that may have something to do, in the order in which they came. */
  readonly #ready = new Set<string>();
  readonly #waiting = new Map<string, number>();
  /** Keys of tracks that a drain still has to wait for. */
  readonly #open = new Set<string>();
  readonly #needs = new Needs((track) => this.isHeld(track));
  #running = 0;
  #closes = 0;
  #timer: NodeJS.Timeout | undefined;
  #timerMs = Infinity;
  #urgent = false;
  #hold = false;
  #stopped = false;
  readonly #changes = new Changes();

  constructor(options: FilesOptions) {
    this.#options = options;
  }

  /** A declared file that was there before the task started. */
  inherit(path: RelPath, fingerprint: Fingerprint): void {
    for (const role of this.#options.rolesOf(path)) {
      const track = this.#trackOf(path, role);
      this.#set({ ...track, inherited: fingerprint }, track);
    }
  }

  /** A close, or with a `fingerprint` the sight of a scan. */
  closed(path: RelPath, how: ClosedHow, atMs: number, fingerprint?: Fingerprint): void {
    for (const role of this.#options.rolesOf(path)) {
      this.#apply(this.#trackOf(path, role), { kind: 'closed', how, atMs, fingerprint });
    }
    this.#pump();
  }

  /** The task ended with 0: inherited files count as its own. */
  adoptInherited(): void {
    for (const track of this.#tracks.values()) this.#apply(track, { kind: 'adopt' });
    this.#pump();
  }

  /**
   * This state of the file is needed now: pushed without pacing even if it counts as known. False when it
   * cannot be pushed.
   */
  want(path: RelPath, role: TrackRole): boolean {
    const track = this.#trackOf(path, role);
    this.#apply(track, { kind: 'wanted' });
    this.#pump();
    return this.get(path, role)?.left === undefined;
  }

  /** From now on pacing and holding no longer count. */
  hurry(): void {
    this.#urgent = true;
    this.retryNow();
  }

  /** What the store has refused is tried again at once. */
  retryNow(): void {
    for (const track of this.#tracks.values()) {
      if (track.pending && track.failedTries > 0) this.#apply(track, { kind: 'retry-now' });
    }
    this.#wakeAll();
  }

  /** Files that are not durable yet and wait for nothing but that. */
  get waiting(): number {
    return this.#open.size;
  }

  /** Closes of declared files up to now: who sees the same number twice has missed none. */
  get closes(): number {
    return this.#closes;
  }

  /** All that was closed by now is pushed without pacing, and what failed is tried again. */
  needAll(): Need {
    const tracks = new Map([...this.#tracks].filter(([, track]) => track.durableCloses < track.closes));
    const need = this.#needs.need(tracks, (key) => this.#tracks.get(key));
    for (const track of tracks.values()) if (!track.pushing) this.#apply(track, { kind: 'hurried' });
    this.#pump();
    return need;
  }

  /** After SIGTERM results that would replace something wait for the task's end. */
  holdReplacing(hold: boolean): void {
    this.#hold = hold;
    for (const [key, track] of this.#tracks) this.#needs.changed(key, track);
    this.#wakeAll();
  }

  isHeld(track: Track): boolean {
    return isHeldBack(track, this.#hold);
  }

  /** No push starts any more; those under way end by their own signal. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#changes.notify();
  }

  get(path: RelPath, role: TrackRole): Track | undefined {
    return this.#tracks.get(keyOf(path, role));
  }

  tracks(role: TrackRole): readonly Track[] {
    return [...this.#tracks.values()].filter((track) => track.role === role);
  }

  /** Resolves when nothing is pending but what waits for a writer, or when `signal` aborts. */
  async settled(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.#stopped && !this.#allSettled()) await this.#changes.next(signal);
  }

  #allSettled(): boolean {
    return this.#running === 0 && this.#open.size === 0;
  }

  #trackOf(path: RelPath, role: TrackRole): Track {
    return (
      this.#tracks.get(keyOf(path, role)) ??
      newTrack(path, role, role === 'result' && this.#options.replaces(path))
    );
  }

  #apply(track: Track, event: TrackEvent): void {
    this.#set(decide(track, event), track);
  }

  #set(track: Track, before: Track): void {
    const key = keyOf(track.path, track.role);
    this.#tracks.set(key, track);
    this.#waiting.delete(key);
    if (isSettled(track) || track.blocked) this.#open.delete(key);
    else this.#open.add(key);
    if (track.pending && !track.pushing) this.#ready.add(key);
    if (track.closes > before.closes) this.#closes += 1;
    this.#needs.changed(key, track);
    this.#options.onChange(track, before);
    this.#changes.notify();
  }

  #wakeAll(): void {
    for (const [key, track] of this.#tracks) if (track.pending && !track.pushing) this.#ready.add(key);
    this.#pump();
  }

  #pump(): void {
    if (this.#stopped) return;
    const nowMs = this.#options.now();
    for (const key of this.#ready) {
      if (this.#running >= MOST_PUSHES) break;
      this.#ready.delete(key);
      const track = this.#tracks.get(key);
      if (track === undefined) continue;
      const step = nextStep(track, {
        nowMs,
        urgent: this.#urgent || this.#needs.has(key),
        holdReplacing: this.#hold,
      });
      if (step.kind === 'push') this.#start(track, step.spoolFirst);
      else if (step.kind === 'wait') {
        this.#waiting.set(key, step.untilMs);
        if (step.untilMs < this.#timerMs) this.#arm(step.untilMs, nowMs);
      }
    }
  }

  #start(track: Track, spoolFirst: boolean): void {
    this.#running += 1;
    this.#apply(track, { kind: 'push-started' });
    const { push, now } = this.#options;
    void push(track, spoolFirst)
      .catch((error: unknown): TrackEvent => ({ kind: 'failed', why: reasonOf(error), atMs: now() }))
      .then((event) => {
        this.#running -= 1;
        this.#apply(this.#trackOf(track.path, track.role), event);
        this.#pump();
      });
  }

  #arm(untilMs: number, nowMs: number): void {
    clearTimeout(this.#timer);
    this.#timerMs = untilMs;
    this.#timer = setTimeout(() => this.#wakeDue(), Math.max(1, untilMs - nowMs));
  }

  #wakeDue(): void {
    const nowMs = this.#options.now();
    let earliest = Infinity;
    for (const [key, untilMs] of this.#waiting) {
      if (untilMs > nowMs) {
        earliest = Math.min(earliest, untilMs);
        continue;
      }
      this.#waiting.delete(key);
      this.#ready.add(key);
    }
    this.#timerMs = Infinity;
    if (earliest !== Infinity) this.#arm(earliest, nowMs);
    this.#pump();
  }
}

function keyOf(path: RelPath, role: TrackRole): string {
  return `${role}:${path}`;
}
