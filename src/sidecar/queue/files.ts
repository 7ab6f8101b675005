// The declared files of this run: passes events to decide() and carries out its decisions. Pushes are bounded, with at
// most one in flight for each file and role, and one timer serves all files that wait. With a deadline the most urgent
// files go first, and a push that does not fit is not begun.
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
import type { LeftFile } from '../../model/format/records.ts';
import type { Paths } from '../../model/packed/packed-map.ts';
import type { RelPath } from '../../model/path.ts';
import { Changes } from '../../model/waiting.ts';
import { SMALL_BYTES } from '../../read/small-file.ts';
import { Places, type PushKind, type PushQuota } from '../run/places.ts';
import { type ExistingPaths, type FileKey, FileStates, isOpen, type Need, OpenNeeds } from './file-states.ts';
import { Alarm, NO_TIME, Priority, type PushHandle, Ready } from './turns.ts';

/** Each name takes about 600 bytes until the run ends, even if its file is removed. */
const MOST_NAMES = 1_000_000;

/** Carries out one push of a file and says how it ended. Never throws because of the file's state. */
export type Pusher = (fileState: FileState, how: PushHandle) => Promise<FileEvent>;

export interface FilesOptions {
  /** Shared with all other tables that are keyed by path. */
  readonly paths?: Paths;
  /** Shared with other tasks; if left out, the run gets its own. */
  readonly places?: Places | undefined;
  readonly push: Pusher;
  readonly rolesOf: (path: RelPath) => readonly FileRole[];
  /** Size of the local file in bytes; 0 if it is gone. */
  readonly sizeOf: (path: RelPath) => number;
  /** How many closes a push of this checkpoint covers if it begins now; undefined: all. */
  readonly covers?: (path: RelPath) => number | undefined;
  /** Reports, before it returns, every close of the file that the kernel knows. */
  readonly catchUp: (path: RelPath) => void;
  /** True while the local file is in this state. */
  readonly isStill: (path: RelPath, state: Fingerprint) => boolean;
  /** The close that made content of this state. `lastClose`: the newest close that was reported. */
  readonly closeOf: (lastClose: Close | undefined, state: Fingerprint) => Close | undefined;
  /** True if the file came into this state after the close, by a change or a rename. */
  readonly isAfter: (close: Close, state: Fingerprint) => boolean;
  readonly now: () => number;
  /** When it aborts, every push is given up. */
  readonly signal: AbortSignal;
  /** The limit of files that are known by name; 1,000,000 if left out. */
  readonly mostNames?: number;
  /** Called for the first file beyond the limit. */
  readonly onTooMany?: (file: LeftFile) => void;
}

/** Facts about a close beside its path and time. */
export interface KnownOfClose {
  /** Set for a state that a scan saw: a state that is known already is no close. */
  readonly fingerprint?: Fingerprint | undefined;
  /** `unknown` if left out. */
  readonly evidence?: Evidence;
  /** {@link Close.seq}; default 0, for what a scan has found: that has no place in the order. */
  readonly seq?: number;
  /** {@link ClosedEvent.since} */
  readonly since?: number | undefined;
}

/** One change of a file state. */
export interface FileChange {
  readonly fileState: FileState;
  readonly before: FileState;
  /** The event that changed it; undefined for files that existed before the task started. */
  readonly event: FileEvent | undefined;
}

type Sized = PushKind & { readonly sizeBytes: number };

export class Files {
  readonly #options: FilesOptions;
  readonly #fileStates: FileStates;
  /** Keys of file states that may have something to do. */
  readonly #ready = new Ready<Sending>();
  /** Large files that wait for others of their kind, while small ones may pass. */
  readonly #held: Readonly<Record<FileRole, Set<FileKey>>> = { checkpoint: new Set(), result: new Set() };
  /** The members of the set that is being sent: no other checkpoint is begun meanwhile. */
  #first: ReadonlySet<RelPath> | undefined;
  /** Checkpoints that wait until that set is sent. */
  readonly #postponed = new Set<FileKey>();
  /** Checkpoints whose pushes in flight are given up, as no set needs them. */
  readonly #dropped = new Set<FileKey>();
  readonly #quota: PushQuota;
  readonly #waiting: Alarm;
  readonly #needs: OpenNeeds;
  readonly #priority: Priority;
  #running = 0;
  #closes = 0;
  readonly #tooMany = new Map<FileRole, LeftFile>();
  #urgent = false;
  #stopped = false;
  /** True if no ready file fits into the time that is left, and no push is in flight. */
  #noTime = false;
  readonly #changes = new Changes();
  #listener: (change: FileChange) => void = () => undefined;

  constructor(options: FilesOptions) {
    this.#options = options;
    this.#fileStates = new FileStates(options.paths);
    this.#quota = (options.places ?? new Places()).open(() => this.#pump());
    this.#needs = new OpenNeeds(this.#fileStates);
    this.#priority = new Priority(options.sizeOf, options.now, options.signal);
    this.#waiting = new Alarm(options.now, (due) => {
      for (const key of due) this.#ready.add(key);
      this.#pump();
    });
  }

  /** From now on calls `listener` for each change, before anything acts on the change. */
  listen(listener: (change: FileChange) => void): void {
    this.#listener = listener;
  }

  /** From now on the most urgent files go first. If `atMs` (ms since the epoch) is set, nothing is sent after it. */
  deadline(atMs: number | undefined): void {
    this.#priority.deadlineMs = atMs;
    this.#quota.hurry(atMs !== undefined);
    for (const held of Object.values(this.#held)) {
      for (const key of held) this.#ready.add(key);
      held.clear();
    }
    if (atMs !== undefined)
      this.#ready.rank((key) => this.#priority.sending(this.#fileStates.at(key)), byUrgency);
    this.#priority.giveUpLate();
    this.#pump();
  }

  /** The measured rate of the link no longer applies. */
  forgetRate(): void {
    this.#priority.forgetRate();
  }

  /** How many ms sending takes, as measured, for all files that the task still has open and one more checkpoint. */
  get drainMs(): number | undefined {
    const last = [...this.existing.paths(), ...this.#fileStates.blockedResults()];
    return this.#priority.takesMs(last.reduce((bytes, path) => bytes + this.#options.sizeOf(path), 0));
  }

  /** A declared file that existed before the task started. */
  inherit(path: RelPath, fingerprint: Fingerprint): void {
    for (const role of this.#options.rolesOf(path)) {
      if (!this.#isTaken(path, role)) continue;
      const fileState = this.#stateOf(path, role);
      this.#set({ fileState: { ...fileState, inherited: fingerprint }, before: fileState, event: undefined });
    }
  }

  closed(path: RelPath, how: ClosedHow, atMs: number, known: KnownOfClose = {}): void {
    for (const role of this.#options.rolesOf(path)) {
      if (!this.#isTaken(path, role)) continue;
      this.#apply(this.#stateOf(path, role), { kind: 'closed', how, atMs, ...known });
    }
    this.#pump();
  }

  /** By role, the first file beyond the limit: neither it nor any later one is stored. */
  get tooMany(): ReadonlyMap<FileRole, LeftFile> {
    return this.#tooMany;
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
   * never be pushed as it is. A file that the store has refused waits for its next try.
   */
  want(path: RelPath, role: FileRole): boolean {
    const fileState = this.#stateOf(path, role);
    if (isDone(fileState) && fileState.left !== undefined) return false;
    this.#apply(fileState, { kind: 'wanted' });
    this.#pump();
    return true;
  }

  /** The set of these files is being sent, and no other checkpoint is begun meanwhile; undefined: no set is. */
  setFirst(members: ReadonlySet<RelPath> | undefined): void {
    this.#first = members;
    for (const key of this.#postponed) this.#ready.add(key);
    this.#postponed.clear();
    this.#pump();
  }

  /** No set needs these checkpoints as they wait or are sent now. Later closes count again. */
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

  /** Retries at once the files that the store has refused. */
  retryNow(): void {
    for (const fileState of this.#fileStates.refused()) this.#apply(fileState, { kind: 'retry-now' });
    this.#wakeAll();
  }

  /** The number of files that are not durable yet and wait for nothing else. */
  get waiting(): number {
    return this.#fileStates.open;
  }

  /** The number of closes of declared files so far. If it has not changed, there was no close in between. */
  get closes(): number {
    return this.#closes;
  }

  /** Pushes everything that was closed so far without pacing, and retries what failed. */
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

  /** The task says that the files it has closed so far are whole. This is believed of each file that `isAtRest`. */
  vouch(isAtRest: (fileState: FileState) => boolean): void {
    for (const fileState of this.#fileStates.unproven())
      if (isAtRest(fileState)) this.#apply(fileState, { kind: 'vouched' });
  }

  /** Begins no further push, and gives up those in flight. */
  stop(): void {
    this.#stopped = true;
    this.#quota.close();
    this.#waiting.close();
    this.#priority.giveUpAll(new Error(NO_TIME));
    this.#changes.notify();
  }

  /** After {@link stop}: resolves when the last push that was given up has ended, or when `signal` aborts. */
  async idle(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.#running > 0) await this.#changes.next(signal);
  }

  get(path: RelPath, role: FileRole): FileState | undefined {
    return this.#fileStates.get(path, role);
  }

  /** Lazily, one by one, because there may be very many. */
  fileStates(role: FileRole): Iterable<FileState> {
    return this.#fileStates.of(role);
  }

  /** The files of this role that wait to be stored, or for their writer. */
  outstanding(role: FileRole): Iterable<FileState> {
    return this.#fileStates.outstanding(role);
  }

  /** The files that were closed or inherited last, newest last. */
  recent(role: FileRole): Iterable<RelPath> {
    return this.#fileStates.recent(role);
  }

  /** Checkpoint files that may exist: of very many, most may be gone. */
  get existing(): ExistingPaths {
    return this.#fileStates.existing;
  }

  /** Files whose last close the kernel may have made for a dying process, however long ago it was. */
  unproven(): Iterable<FileState> {
    return this.#fileStates.unproven();
  }

  /** The paths of all files of this role. */
  paths(role: FileRole): Iterable<RelPath> {
    return this.#fileStates.paths(role);
  }

  /**
   * Resolves when nothing is pending, except files that wait for a writer or do not fit into the time that is left; or
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

  #isTaken(path: RelPath, role: FileRole): boolean {
    const { mostNames = MOST_NAMES, onTooMany } = this.#options;
    if (this.#fileStates.count < mostNames || this.get(path, role) !== undefined) return true;
    if (!this.#tooMany.has(role)) {
      const file = { path, why: `no more than ${mostNames.toLocaleString('en')} files of a run are stored` };
      this.#tooMany.set(role, file);
      onTooMany?.(file);
    }
    return false;
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
    // If the run is given up, each push would fail at once, again and again.
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
      if (!isUrgent && this.#quota.waits(fileState?.role ?? 'result')) break;
      const urgent = this.#urgent || this.#needs.has(key);
      const step = fileState === undefined ? undefined : nextStep(fileState, { nowMs, urgent });
      if (fileState === undefined || step?.kind !== 'push') {
        this.#served(key);
        if (step?.kind === 'wait') this.#waiting.wait(key, step.untilMs);
        continue;
      }
      const sizeBytes = this.#options.sizeOf(fileState.path);
      const kind = { role: fileState.role, isLarge: sizeBytes > SMALL_BYTES };
      if (!isUrgent && !this.#quota.hasRoom(kind)) {
        // Smaller ones may pass; with a deadline no smaller one follows.
        if (!kind.isLarge || this.#priority.deadlineMs !== undefined) break;
        this.#ready.delete(key);
        this.#held[kind.role].add(key);
        continue;
      }
      if (!this.#priority.isBegun(fileState.role, sizeBytes)) {
        this.#noTime = this.#running === 0 && this.#waiting.size === 0;
        // Nothing else can change any more.
        if (this.#noTime) this.#changes.notify();
        break;
      }
      this.#served(key);
      this.#start(fileState, step.spoolFirst, { ...kind, sizeBytes });
    }
  }

  /** Large files that were held back became ready before all the others. */
  *#inTurn(): Generator<FileKey> {
    for (const role of ['checkpoint', 'result'] as const) {
      for (const key of this.#held[role]) {
        if (!this.#quota.hasRoom({ role, isLarge: true })) break;
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
    this.#quota.take(kind);
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
        this.#quota.leave(kind);
        this.#pump();
      });
  }

  /**
   * A process that was killed may have written the file again between the close that is pushed and our reading; the
   * close that the kernel made for it may still be queued. What we read before that close belongs to the older one: it
   * differs from the file's present content, and it was not made after the pushed close was reported.
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
