// The declared files of this run: feeds what happened to decide(), and carries out what it says. Bounded
// pushes, one in flight for each file and role, one timer for all that waits. With a deadline the most urgent
// go first, and what does not fit is not begun.
import { byUrgency, type Sending } from '../../model/file/deadline.ts';
import { decide, type TrackEvent } from '../../model/file/decide.ts';
import { newTrack, type Track, type TrackRole } from '../../model/file/file-state.ts';
import { reasonOf } from '../../model/errors.ts';
import type { ClosedHow } from '../../model/file/events.ts';
import type { Fingerprint } from '../../model/file/fingerprint.ts';
import { isHeldBack, nextStep } from '../../model/file/next-step.ts';
import type { RelPath } from '../../model/path.ts';
import { Alarm } from './alarm.ts';
import { Changes } from './changes.ts';
import { Needs, type Need } from './needs.ts';
import { Ready } from './ready.ts';
import type { FilesOptions, KnownOfClose } from './pusher.ts';
import { isOpen, Tracks } from './file-states.ts';
import { Triage } from './priority.ts';

/** Pushes under way at once: enough to hide a store's latency, few enough for its memory. */
const MOST_PUSHES = 8;

export class Files {
  readonly #options: FilesOptions;
  readonly #tracks: Tracks;
  /** Keys of tracks that may have something to do. */
  readonly #ready = new Ready<Sending>();
  readonly #waiting: Alarm;
  readonly #needs = new Needs((track) => this.isHeld(track));
  #running = 0;
  #closes = 0;
  #urgent = false;
  #hold = false;
  #stopped = false;
  /** What is ready does not fit into the time that is left, and nothing is under way. */
  #noTime = false;
  readonly #triage: Triage;
  readonly #changes = new Changes();

  constructor(options: FilesOptions) {
    this.#options = options;
    this.#tracks = new Tracks(options.paths);
    this.#triage = new Triage(options.sizeOf, options.now);
    this.#waiting = new Alarm(options.now, (due) => {
      for (const key of due) this.#ready.add(key);
      this.#pump();
    });
  }

  /** From now on the most urgent files go first; nothing is sent after `atMs`, ms since the epoch, if it is set. */
  deadline(atMs: number | undefined): void {
    this.#triage.deadlineMs = atMs;
    if (atMs !== undefined) this.#ready.rank((key) => this.#triage.sending(this.#tracks.at(key)), byUrgency);
    this.#triage.giveUpLate();
    this.#pump();
  }

  /** Ms that sending what the task still holds open, and one more checkpoint, is measured to take. */
  get drainMs(): number | undefined {
    const last = [...this.paths('checkpoint'), ...this.#tracks.blockedResults()];
    return this.#triage.takesMs(last.reduce((bytes, path) => bytes + this.#options.sizeOf(path), 0));
  }

  /** A declared file that was there before the task started. */
  inherit(path: RelPath, fingerprint: Fingerprint): void {
    for (const role of this.#options.rolesOf(path)) {
      const track = this.#trackOf(path, role);
      this.#set({ ...track, inherited: fingerprint }, track);
    }
  }

  closed(path: RelPath, how: ClosedHow, atMs: number, known: KnownOfClose = {}): void {
    for (const role of this.#options.rolesOf(path)) {
      this.#apply(this.#trackOf(path, role), { kind: 'closed', how, atMs, ...known });
    }
    this.#pump();
  }

  /** The task ended with 0: inherited files count as its own, but for `others`. */
  adoptInherited(others: ReadonlySet<RelPath>): void {
    for (const track of this.#tracks.inherited(others)) this.#apply(track, { kind: 'adopt' });
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
    for (const track of this.#tracks.refused()) this.#apply(track, { kind: 'retry-now' });
    this.#wakeAll();
  }

  /** Files that are not durable yet and wait for nothing but that. */
  get waiting(): number {
    return this.#tracks.open;
  }

  /** Closes of declared files up to now: who sees the same number twice has missed none. */
  get closes(): number {
    return this.#closes;
  }

  /** All that was closed by now is pushed without pacing, and what failed again. `vouched`: the task itself asks. */
  needAll(vouched = true): Need {
    const wanted = this.#tracks.behind();
    const need = this.#needs.need(wanted, (key) => this.#tracks.at(key), vouched);
    for (const key of wanted.keys()) {
      const track = this.#tracks.at(key);
      if (track?.pushing === false) this.#apply(track, { kind: 'hurried' });
    }
    this.#pump();
    return need;
  }

  /** The task says that what it has closed by now is whole: believed of each such file that `isAtRest`. */
  vouch(isAtRest: (track: Track) => boolean): void {
    for (const track of this.#tracks.unproven()) if (isAtRest(track)) this.#apply(track, { kind: 'vouched' });
  }

  /** After SIGTERM results that would replace something wait for the task's end. */
  holdReplacing(hold: boolean): void {
    this.#hold = hold;
    for (const track of this.#tracks.all()) this.#needs.changed(this.#tracks.keyOf(track), track);
    this.#wakeAll();
  }

  isHeld(track: Track): boolean {
    return isHeldBack(track, this.#hold);
  }

  /** No push starts any more; those under way are given up. */
  stop(): void {
    this.#stopped = true;
    this.#waiting.close();
    this.#triage.giveUpAll();
    this.#changes.notify();
  }

  get(path: RelPath, role: TrackRole): Track | undefined {
    return this.#tracks.get(path, role);
  }

  /** One after the other: there may be very many. */
  tracks(role: TrackRole): Iterable<Track> {
    return this.#tracks.of(role);
  }

  /** Of them those that wait to be stored, or for their writer. */
  unsettled(role: TrackRole): Iterable<Track> {
    return this.#tracks.unsettled(role);
  }

  /** The paths of all. */
  paths(role: TrackRole): Iterable<RelPath> {
    return this.#tracks.paths(role);
  }

  /**
   * Resolves when nothing is pending but what waits for a writer, or does not fit into the time that is left; or
   * when `signal` aborts. With a `role` only files of that role are waited for.
   */
  async settled(signal: AbortSignal, role?: TrackRole): Promise<void> {
    while (!signal.aborted && !this.#stopped && !this.#allSettled(role)) await this.#changes.next(signal);
  }

  #allSettled(role: TrackRole | undefined): boolean {
    if (this.#running === 0 && (this.#tracks.open === 0 || this.#noTime)) return true;
    if (role === undefined) return false;
    for (const track of this.tracks(role)) if (track.pushing || isOpen(track)) return false;
    return true;
  }

  #trackOf(path: RelPath, role: TrackRole): Track {
    return this.get(path, role) ?? newTrack(path, role, role === 'result' && this.#options.replaces(path));
  }

  #apply(track: Track, event: TrackEvent): void {
    this.#set(decide(track, event), track);
  }

  #set(track: Track, before: Track): void {
    const key = this.#tracks.keyOf(track);
    this.#tracks.set(track);
    this.#waiting.cancel(key);
    if (track.pending && !track.pushing) this.#ready.add(key);
    if (track.closes > before.closes) this.#closes += 1;
    this.#needs.changed(key, track);
    this.#options.onChange(track, before);
    this.#changes.notify();
  }

  #wakeAll(): void {
    for (const track of this.#tracks.all())
      if (track.pending && !track.pushing) this.#ready.add(this.#tracks.keyOf(track));
    this.#pump();
  }

  #pump(): void {
    if (this.#stopped) return;
    const nowMs = this.#options.now();
    this.#noTime = false;
    for (const key of this.#ready) {
      const track = this.#tracks.at(key);
      if (this.#running >= MOST_PUSHES && !(track && this.#triage.isUrgent(track.role))) break;
      this.#ready.delete(key);
      if (track === undefined) continue;
      const urgent = this.#urgent || this.#needs.has(key);
      const vouched = this.#urgent || this.#needs.vouches(key);
      const step = nextStep(track, { nowMs, urgent, vouched, holdReplacing: this.#hold });
      if (step.kind === 'push') {
        if (!this.#triage.isBegun(this.#triage.sending(track))) {
          this.#ready.add(key);
          this.#noTime = this.#running === 0 && this.#waiting.size === 0;
          break;
        }
        this.#start(track, step.spoolFirst);
      } else if (step.kind === 'wait') this.#waiting.wait(key, step.untilMs);
    }
  }

  #start(track: Track, spoolFirst: boolean): void {
    this.#running += 1;
    this.#apply(track, { kind: 'push-started' });
    const { push, now } = this.#options;
    const key = this.#tracks.keyOf(track);
    void push(track, this.#triage.began(key, track.path, track.role, spoolFirst))
      .catch((error: unknown): TrackEvent => ({ kind: 'failed', why: reasonOf(error), atMs: now() }))
      .then((event) => {
        this.#running -= 1;
        this.#triage.ended(key, event.kind === 'stored');
        this.#apply(this.#trackOf(track.path, track.role), event);
        this.#pump();
      });
  }
}
