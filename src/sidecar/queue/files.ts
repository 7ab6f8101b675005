// The declared files of this run: passes what happened to decide(), and carries out what it says. Pushes are bounded,
// one in flight for each file and role, with one timer for all that waits. With a deadline the most urgent files go
// first, and what does not fit is not begun.
import { reasonOf } from '../../model/errors.ts';
import { byUrgency, type Sending } from '../../model/file/deadline.ts';
import { decide, type FileEvent, isDone, nextStep } from '../../model/file/decide.ts';
import type { Evidence } from '../../model/file/evidence.ts';
import {
  type Close,
  type ClosedHow,
  type FileRole,
  type FileState,
  type Fingerprint,
  newFileState,
} from '../../model/file/file-state.ts';
import type { Paths } from '../../model/packed/packed-map.ts';
import type { RelPath } from '../../model/path.ts';
import { Changes } from '../../model/waiting.ts';
import { SMALL_BYTES } from '../../read/small-file.ts';
import { Places, type PushKind, type Seat } from '../run/places.ts';
import { type ExistingPaths, type FileKey, FileStates, isOpen, type Need, OpenNeeds } from './file-states.ts';
import { Alarm, NO_TIME, Priority, type PushHandle, Ready } from './turns.ts';

/** Carries out one push of a file and says how it ended. Never throws because of a state of the file. */
export type Pusher = (fileState: FileState, how: PushHandle) => Promise<FileEvent>;

export interface FilesOptions {
  /** Shared with what else is known by path. */
  readonly paths?: Paths;
  /** Shared with other tasks; its own, if they are left out. */
  readonly places?: Places | undefined;
  readonly push: Pusher;
  readonly rolesOf: (path: RelPath) => readonly FileRole[];
  /** Size of the local file in bytes; 0 if it is gone. */
  readonly sizeOf: (path: RelPath) => number;
  /** How many closes a push of this checkpoint covers if it begins now; undefined: all. */
  readonly covers?: (path: RelPath) => number | undefined;
  /** Tells at once each close of the file that the kernel knows. */
  readonly catchUp: (path: RelPath) => void;
  /** True while the local file is in this state. */
  readonly isStill: (path: RelPath, state: Fingerprint) => boolean;
  /** The close that made content of this state. `lastClose`: the newest that we heard of. */
  readonly closeOf: (lastClose: Close | undefined, state: Fingerprint) => Close | undefined;
  /** True if the file was changed, or renamed, into this state after the close. */
  readonly isAfter: (close: Close, state: Fingerprint) => boolean;
  readonly now: () => number;
  /** Its abort gives up every push. */
  readonly signal: AbortSignal;
}

/** What is known of a close beside its path and time. */
export interface KnownOfClose {
  /** For what a scan saw: a state that is known already is no close. */
  readonly fingerprint?: Fingerprint | undefined;
  /** `unknown` if it is left out. */
  readonly evidence?: Evidence;
}

/** One change of a file state. */
export interface FileChange {
  readonly fileState: FileState;
  readonly before: FileState;
  /** What has changed it; undefined for what was there before the task started. */
  readonly event: FileEvent | undefined;
}

type Sized = PushKind & { readonly sizeBytes: number };

export class Files {
  readonly #options: FilesOptions;
  readonly #fileStates: FileStates;
  /** Keys of file states that may have something to do. */
  readonly #ready = new Ready<Sending>();
  /** Large files that wait for others of their kind, and let small ones pass. */
  readonly #held: Readonly<Record<FileRole, Set<FileKey>>> = { checkpoint: new Set(), result: new Set() };
  /** The set that is on its way: of the checkpoints only its files are begun. */
  #first: ReadonlySet<RelPath> | undefined;
  /** Checkpoints that wait for it. */
  readonly #postponed = new Set<FileKey>();
  /** Their pushes under way are given up, as no set needs them. */
  readonly #dropped = new Set<FileKey>();
  readonly #seat: Seat;
  readonly #waiting: Alarm;
  readonly #needs: OpenNeeds;
  readonly #priority: Priority;
  #running = 0;
  #closes = 0;
  #urgent = false;
  #stopped = false;
  /** What is ready does not fit into the time that is left, and nothing is under way. */
  #noTime = false;
  readonly #changes = new Changes();
  #listener: (change: FileChange) => void = () => undefined;

  constructor(options: FilesOptions) {
    this.#options = options;
    this.#fileStates = new FileStates(options.paths);
    this.#seat = (options.places ?? new Places()).open(() => this.#pump());
    this.#needs = new OpenNeeds(this.#fileStates);
    this.#priority = new Priority(options.sizeOf, options.now, options.signal);
    this.#waiting = new Alarm(options.now, (due) => {
      for (const key of due) this.#ready.add(key);
      this.#pump();
    });
  }

  /** Calls `listener` for each change from now on, before anything follows from it. */
  listen(listener: (change: FileChange) => void): void {
    this.#listener = listener;
  }

  /** From now on the most urgent files go first. If `atMs` (ms since the epoch) is set, nothing is sent after it. */
  deadline(atMs: number | undefined): void {
    this.#priority.deadlineMs = atMs;
    this.#seat.hurry(atMs !== undefined);
    for (const held of Object.values(this.#held)) {
      for (const key of held) this.#ready.add(key);
      held.clear();
    }
    if (atMs !== undefined)
      this.#ready.rank((key) => this.#priority.sending(this.#fileStates.at(key)), byUrgency);
    this.#priority.giveUpLate();
    this.#pump();
  }

  /** What was measured of the link tells nothing any more. */
  forgetRate(): void {
    this.#priority.forgetRate();
  }

  /** How many ms it takes, as measured, to send what the task still holds open and one more checkpoint. */
  get drainMs(): number | undefined {
    const last = [...this.existing.paths(), ...this.#fileStates.blockedResults()];
    return this.#priority.takesMs(last.reduce((bytes, path) => bytes + this.#options.sizeOf(path), 0));
  }

  /** A declared file that was there before the task started. */
  inherit(path: RelPath, fingerprint: Fingerprint): void {
    for (const role of this.#options.rolesOf(path)) {
      const fileState = this.#stateOf(path, role);
      this.#set({ fileState: { ...fileState, inherited: fingerprint }, before: fileState, event: undefined });
    }
  }

  closed(path: RelPath, how: ClosedHow, atMs: number, known: KnownOfClose = {}): void {
    for (const role of this.#options.rolesOf(path)) {
      const seq = this.#closes + 1;
      this.#apply(this.#stateOf(path, role), { kind: 'closed', how, atMs, seq, ...known });
    }
    this.#pump();
  }

  /** The task ended with 0: inherited files count as its own, unless they are others'. */
  adoptInherited(isOthers: (path: RelPath, inherited: Fingerprint) => boolean): void {
    for (const fileState of this.#fileStates.all()) {
      const { path, inherited } = fileState;
      if (inherited !== undefined && !isOthers(path, inherited)) this.#apply(fileState, { kind: 'adopt' });
    }
    this.#pump();
  }

  /**
   * Somebody needs this state of the file now: it is pushed without pacing, even if it counts as known. False if it can
   * never be pushed as it is; what the store has refused waits for its next try.
   */
  want(path: RelPath, role: FileRole): boolean {
    const fileState = this.#stateOf(path, role);
    if (isDone(fileState) && fileState.left !== undefined) return false;
    this.#apply(fileState, { kind: 'wanted' });
    this.#pump();
    return true;
  }

  /** The set of these files is on its way, and no other checkpoint is begun meanwhile; undefined: none is. */
  setFirst(members: ReadonlySet<RelPath> | undefined): void {
    this.#first = members;
    for (const key of this.#postponed) this.#ready.add(key);
    this.#postponed.clear();
    this.#pump();
  }

  /** No set needs these checkpoints as they wait or are sent now: what is closed from now on counts anew. */
  drop(isDropped: (path: RelPath) => boolean): void {
    for (const fileState of this.#fileStates.outstanding('checkpoint')) {
      if (fileState.blocked || !isDropped(fileState.path)) continue;
      const key = this.#fileStates.keyOf(fileState);
      if (!fileState.pushing) this.#apply(fileState, { kind: 'dropped' });
      else {
        this.#dropped.add(key);
        this.#priority.giveUp(key, new Error('no checkpoint set needs it any more'));
      }
    }
  }

  /** From now on nothing is paced. */
  hurry(): void {
    this.#urgent = true;
    this.retryNow();
  }

  /** Tries at once what the store has refused. */
  retryNow(): void {
    for (const fileState of this.#fileStates.refused()) this.#apply(fileState, { kind: 'retry-now' });
    this.#wakeAll();
  }

  /** Files that are not durable yet and wait for nothing but that. */
  get waiting(): number {
    return this.#fileStates.open;
  }

  /** Closes of declared files up to now. If the number has not changed, no close came in between. */
  get closes(): number {
    return this.#closes;
  }

  /** Pushes all that was closed by now without pacing, and tries again what failed. */
  needAll(): Need {
    const wanted = this.#fileStates.behind();
    const need = this.#needs.need(wanted);
    for (const key of wanted.keys()) {
      const fileState = this.#fileStates.at(key);
      if (fileState?.pushing === false) this.#apply(fileState, { kind: 'hurried' });
    }
    this.#pump();
    return need;
  }

  /** The task says that what it has closed by now is whole: believed of each such file that `isAtRest`. */
  vouch(isAtRest: (fileState: FileState) => boolean): void {
    for (const fileState of this.#fileStates.unproven())
      if (isAtRest(fileState)) this.#apply(fileState, { kind: 'vouched' });
  }

  /** No push starts any more; those under way are given up. */
  stop(): void {
    this.#stopped = true;
    this.#seat.close();
    this.#waiting.close();
    this.#priority.giveUpAll(new Error(NO_TIME));
    this.#changes.notify();
  }

  /** After {@link stop}: resolves when the last of those that were given up has ended, or when `signal` aborts. */
  async idle(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.#running > 0) await this.#changes.next(signal);
  }

  get(path: RelPath, role: FileRole): FileState | undefined {
    return this.#fileStates.get(path, role);
  }

  /** One after the other, because there may be very many. */
  fileStates(role: FileRole): Iterable<FileState> {
    return this.#fileStates.of(role);
  }

  /** Those of them that wait to be stored, or for their writer. */
  outstanding(role: FileRole): Iterable<FileState> {
    return this.#fileStates.outstanding(role);
  }

  /** Those that were closed or inherited last, the newest last. */
  recent(role: FileRole): Iterable<RelPath> {
    return this.#fileStates.recent(role);
  }

  /** Checkpoints that may be there: if very many came, most may be gone. */
  get existing(): ExistingPaths {
    return this.#fileStates.existing;
  }

  /** Files whose last close a death may have made, however long ago it was. */
  unproven(): Iterable<FileState> {
    return this.#fileStates.unproven();
  }

  /** The paths of all. */
  paths(role: FileRole): Iterable<RelPath> {
    return this.#fileStates.paths(role);
  }

  /**
   * Resolves when nothing is pending, except what waits for a writer or does not fit into the time that is left; or
   * when `signal` aborts. With a `role` it waits only for files of that role.
   */
  async drained(signal: AbortSignal, role?: FileRole): Promise<void> {
    while (!signal.aborted && !this.#stopped && !this.#allSettled(role)) await this.#changes.next(signal);
  }

  #allSettled(role: FileRole | undefined): boolean {
    if (this.#running === 0 && (this.#fileStates.open === 0 || this.#noTime)) return true;
    if (role === undefined) return false;
    for (const fileState of this.fileStates(role)) if (fileState.pushing || isOpen(fileState)) return false;
    return true;
  }

  #stateOf(path: RelPath, role: FileRole): FileState {
    return this.get(path, role) ?? newFileState(path, role);
  }

  #apply(fileState: FileState, event: FileEvent): void {
    this.#set({ fileState: decide(fileState, event), before: fileState, event });
  }

  #set(change: FileChange): void {
    const { fileState, before, event } = change;
    const key = this.#fileStates.keyOf(fileState);
    this.#fileStates.set(fileState, before);
    this.#waiting.cancel(key);
    if (fileState.pending && !fileState.pushing) this.#ready.add(key);
    if (fileState.closes > before.closes) this.#closes += 1;
    if (fileState.role === 'checkpoint' && (event === undefined || event.kind === 'closed'))
      this.existing.came(fileState.path);
    this.#needs.changed(key, fileState);
    this.#listener(change);
    this.#changes.notify();
  }

  #wakeAll(): void {
    for (const fileState of this.#fileStates.outstanding())
      if (fileState.pending && !fileState.pushing) this.#ready.add(this.#fileStates.keyOf(fileState));
    this.#pump();
  }

  #pump(): void {
    // Of a run that is given up each push would fail at once, again and again.
    if (this.#stopped || this.#options.signal.aborted) return;
    const nowMs = this.#options.now();
    this.#noTime = false;
    for (const key of this.#inTurn()) {
      const fileState = this.#fileStates.at(key);
      const isUrgent = fileState !== undefined && this.#priority.isUrgent(fileState.role);
      if (!isUrgent && fileState !== undefined && this.#isPostponed(fileState)) {
        this.#served(key);
        this.#postponed.add(key);
        continue;
      }
      if (!isUrgent && this.#seat.waits(fileState?.role ?? 'result')) break;
      const urgent = this.#urgent || this.#needs.has(key);
      const step = fileState === undefined ? undefined : nextStep(fileState, { nowMs, urgent });
      if (fileState === undefined || step?.kind !== 'push') {
        this.#served(key);
        if (step?.kind === 'wait') this.#waiting.wait(key, step.untilMs);
        continue;
      }
      const sizeBytes = this.#options.sizeOf(fileState.path);
      const kind = { role: fileState.role, isLarge: sizeBytes > SMALL_BYTES };
      if (!isUrgent && !this.#seat.hasRoom(kind)) {
        // Small ones may pass; with a deadline nothing smaller follows.
        if (!kind.isLarge || this.#priority.deadlineMs !== undefined) break;
        this.#ready.delete(key);
        this.#held[kind.role].add(key);
        continue;
      }
      if (!this.#priority.isBegun(fileState.role, sizeBytes)) {
        this.#noTime = this.#running === 0 && this.#waiting.size === 0;
        // Nothing else may change any more.
        if (this.#noTime) this.#changes.notify();
        break;
      }
      this.#served(key);
      this.#start(fileState, step.spoolFirst, { ...kind, sizeBytes });
    }
  }

  /** Large ones that were held came before all that is ready. */
  *#inTurn(): Generator<FileKey> {
    for (const role of ['checkpoint', 'result'] as const) {
      for (const key of this.#held[role]) {
        if (!this.#seat.hasRoom({ role, isLarge: true })) break;
        yield key;
      }
    }
    yield* this.#ready;
  }

  #isPostponed({ role, path }: FileState): boolean {
    return role === 'checkpoint' && this.#first?.has(path) === false && !this.#urgent;
  }

  #served(key: FileKey): void {
    this.#ready.delete(key);
    for (const held of Object.values(this.#held)) held.delete(key);
  }

  #start(fileState: FileState, spoolFirst: boolean, { sizeBytes, ...kind }: Sized): void {
    this.#running += 1;
    this.#seat.take(kind);
    const { push, now, covers } = this.#options;
    const covered = fileState.role === 'checkpoint' ? covers?.(fileState.path) : undefined;
    this.#apply(fileState, { kind: 'push-started', covers: covered });
    const key = this.#fileStates.keyOf(fileState);
    const closeOf = (read: Fingerprint): Close | undefined => this.#closeOf(fileState, read);
    const handle = this.#priority.began(key, fileState.role, sizeBytes, spoolFirst);
    void push(fileState, { ...handle, closeOf })
      .catch((error: unknown): FileEvent => ({ kind: 'failed', why: reasonOf(error), atMs: now() }))
      .then((event) => {
        this.#running -= 1;
        this.#priority.ended(key, event.kind === 'stored');
        const isDropped = this.#dropped.delete(key) && event.kind === 'failed';
        this.#apply(this.#stateOf(fileState.path, fileState.role), isDropped ? { kind: 'dropped' } : event);
        this.#seat.leave(kind);
        this.#pump();
      });
  }

  /**
   * The file may have been written anew by a process that was killed, between the close that is pushed and the reading:
   * that close may still wait in the kernel's queue. What was read before it is of the older close: it is not what
   * stands there now, nor was it made after we had heard of the close that is pushed.
   */
  #closeOf(pushed: FileState, read: Fingerprint): Close | undefined {
    const { path, role, lastClose } = pushed;
    this.#options.catchUp(path);
    const now = this.#stateOf(path, role);
    const { closeOf, isAfter, isStill } = this.#options;
    const isLater = lastClose !== undefined && isAfter(lastClose, read);
    const isOfNewest = !now.closedAgain || isLater || isStill(path, read);
    return closeOf(isOfNewest ? now.lastClose : lastClose, read);
  }
}
