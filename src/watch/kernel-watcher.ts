// The watcher on inotify: joins the reader, the kernel's events, the evidence about deaths, and the passes. On a local
// file system whose directories are all watched it is idle while the task is, except for an occasional look at the
// task's processes.
import { errnoOf } from '../model/errors.ts';
import type { Evidence } from '../model/file/evidence.ts';
import type { ClosedEvent, ClosedHow } from '../model/file/file-state.ts';
import type { RelPath } from '../model/path.ts';
import { clockMs } from '../native/clock.ts';
import { networkFileSystem } from '../native/network-files.ts';
import { mayBeMore } from './event-bytes.ts';
import type { OnBytes, Reader } from './inotify.ts';
import { KernelEvents, type Reported } from './kernel-events.ts';
import { LinkedDirectories } from './linked-directories.ts';
import { LastSeen, Passes, type PassKind } from './passes.ts';
import { findInTurns, listTreeInTurns, lookAt, type FoundFile, type LookOn, type Walk } from './scan.ts';
import { openTestedReader } from './self-test.ts';
import { forbidden, networkFiles, noEvents, Warnings } from './warnings.ts';
import type { Watcher, WatcherOptions, WatchSystem } from './watching.ts';

/** A new name, or half of a rename, is settled after this long, or at once by drainNow(). */
const PENDING_MS = 5;
/**
 * Closes that were read early, and that nobody asks for, are delivered after this long, with all that arrive meanwhile.
 */
const SOON_MS = 20;
/** Closes that are delivered before other work of this process, other tasks' too, gets its turn: about 2 ms. */
const TOLD_IN_A_TURN = 64;
/** If very many wait, one part in this many is delivered in a turn, so that the queue cannot grow for ever. */
const TURNS = 64;
/**
 * The limit of closes that wait for delivery. Beyond it the newest are dropped, as the kernel drops what does not fit,
 * and the walk finds them.
 */
const MOST_WAITING = 32_768;

/** Throws when inotify cannot be used here; an errno is in the error's `code`. */
export async function openKernelWatcher(options: WatcherOptions, system: WatchSystem): Promise<Watcher> {
  const network = networkFileSystem(system.fileSystemType(options.root.path));
  const reader = await openTestedReader(system, options.root.path, options.spare);
  const watcher = new KernelWatcher(options, reader, network);
  try {
    await watcher.start();
    return watcher;
  } catch (error) {
    await watcher.close();
    throw error;
  }
}

class KernelWatcher implements Watcher {
  readonly mode: Reader['mode'];
  readonly fallback: string | undefined;
  readonly links: LinkedDirectories;
  readonly #options: WatcherOptions;
  readonly #reader: Reader;
  readonly #network: string | undefined;
  readonly #lookOn: LookOn;
  readonly #warnings: Warnings;
  readonly #events: EventQueue;
  readonly #kernel: KernelEvents;
  readonly #passes: Passes;
  readonly #lost = new Set<'overflow' | 'displaced'>();
  /** How many callers of {@link tellAtOnce} want closes at once. */
  #atOnceCallers = 0;
  /** The evidence for closes that the kernel dropped before the next walk. */
  #lostEvidence: Evidence = 'unknown';
  readonly #closing = new AbortController();
  /** Set only where scans are needed beside the events. */
  #lastSeen: LastSeen | undefined;
  #pendingTimer: NodeJS.Timeout | undefined;
  #lookTimer: NodeJS.Timeout | undefined;
  #nextTurn: NodeJS.Immediate | undefined;
  #ended: Promise<void> | undefined;

  constructor(options: WatcherOptions, reader: Reader, network: string | undefined) {
    const { root, interest, linkInterest = interest } = options;
    this.links = new LinkedDirectories(root, linkInterest);
    this.mode = reader.mode;
    if (reader.mode !== 'inotify')
      this.fallback = 'the event loop reports no events of an inotify descriptor';
    this.#options = options;
    this.#reader = reader;
    this.#network = network;
    this.#lookOn = network === undefined ? 'thread' : 'pool';
    this.#warnings = new Warnings(options.onWarning);
    this.#events = new EventQueue({
      onClosed: (event) => {
        if (this.#closing.signal.aborted) return;
        // Before the receiver looks at the file: the next scan must see each later change as new.
        const file = this.#lastSeen === undefined ? undefined : lookAt(root, event.path);
        if (file !== undefined) this.#lastSeen?.note(event.path, file.facts);
        options.onClosed(event);
      },
      onOverflow: () => {
        if (!this.#closing.signal.aborted) options.onOverflow();
      },
    });
    this.#kernel = new KernelEvents({
      root,
      interest,
      reader,
      links: this.links,
      reported: () => this.#events.added,
      onClosed: (path, how, known) => {
        if (this.#events.size < MOST_WAITING) this.#events.add(path, how, known);
        else this.#lost.add('overflow');
      },
      onLost: (why) => void this.#lost.add(why),
      onUncovered: (dir, error) => this.#scanFor(dir, error),
    });
    this.#passes = new Passes((kind, signal) => this.#rescan(kind, signal));
  }

  /** Resolves when every directory that can hold a declared file is watched. */
  async start(): Promise<void> {
    const { root, rescanMs, witness } = this.#options;
    witness?.whenDue(() => this.look());
    this.#reader.listen(this.#accept);
    this.#kernel.watchRoot();
    for await (const _ of listTreeInTurns(this.#kernel.walk, this.#closing.signal)) this.#deliver(Infinity);
    if (this.#network !== undefined) {
      this.#warnings.say(networkFiles(root.path, this.#network, rescanMs));
      this.#scanFromNowOn();
    }
    if (this.#lastSeen === undefined) return;
    for await (const files of findInTurns(this.#kernel.walk, this.#lookOn))
      for (const file of files) this.#lastSeen.note(file.path, file.facts);
  }

  look(): void {
    if (this.#closing.signal.aborted) return;
    this.#readAll();
    this.#judge();
    this.#deliver();
  }

  drainNow(): void {
    if (this.#closing.signal.aborted) return;
    // To make room for what is read next.
    this.#events.deliver(Infinity);
    this.#readAll();
    this.#kernel.resolvePending(this.#readAll);
    this.#deliver(Infinity);
  }

  /** Takes no look at the task's processes: a task that closes file after file would cause one for each push. */
  catchUp(path: RelPath): void {
    if (this.#closing.signal.aborted) return;
    this.#readAll();
    // The kernel may have dropped a close of this file.
    if (this.#lost.has('overflow')) this.#events.add(path, 'scan');
    const before = this.#events.upTo(path);
    if (before > 0) return this.#deliver(Math.max(before, this.#inOneTurn()));
    if (this.#events.size === 0 && !this.#kernel.hasPending && this.#lost.size === 0) return;
    this.#lookTimer ??= setTimeout(() => this.#deliver(), SOON_MS);
  }

  tellAtOnce(): () => void {
    this.#atOnceCallers += 1;
    this.#reader.readAtOnce(true);
    return () => {
      this.#atOnceCallers -= 1;
      if (this.#atOnceCallers === 0) this.#reader.readAtOnce(false);
    };
  }

  unclosed(): readonly RelPath[] {
    return this.#kernel.unclosed;
  }

  missesCloses(): boolean {
    return this.#lastSeen !== undefined || this.#passes.isRunning();
  }

  scan(
    signal?: AbortSignal,
    onUnreadable: Walk['onUnreadable'] = this.#kernel.walk.onUnreadable,
  ): AsyncIterable<readonly FoundFile[]> {
    return findInTurns({ ...this.#kernel.walk, enter: undefined, onUnreadable }, this.#lookOn, signal);
  }

  close(): Promise<void> {
    return (this.#ended ??= this.#end());
  }

  async #end(): Promise<void> {
    this.#closing.abort();
    clearTimeout(this.#pendingTimer);
    clearTimeout(this.#lookTimer);
    clearImmediate(this.#nextTurn);
    await this.#passes.close();
    await this.#reader.close();
  }

  readonly #accept: OnBytes = (bytes, length) => {
    this.#kernel.accept(bytes, length);
    // More may be queued, and the last event may say that the kernel dropped some.
    if (mayBeMore(bytes, length)) this.#readAll();
    const nextLookMs = this.#events.isUnjudged() ? (this.#options.witness?.nextMs ?? 0) : 0;
    const pauseMs = nextLookMs - performance.now();
    if (pauseMs <= 0) this.#deliver();
    else this.#lookTimer ??= setTimeout(() => this.#deliver(), pauseMs);
  };

  readonly #readAll = (): void => this.#reader.drain(this.#kernel.accept);

  /** Call it after the closes were read, and before anybody acts on them. */
  #judge(): void {
    const evidence = this.#options.witness?.judge() ?? 'unknown';
    // Closes that the kernel made for a dying process before we saw its death may still be queued. The next look does
    // not see that death again.
    if (evidence === 'doubtful') this.#readAll();
    if (!this.#lost.has('overflow')) return this.#events.judge(evidence);
    // The last close of a file may have been dropped: it may be one that the kernel made for the process whose death
    // was seen.
    if (evidence === 'doubtful') this.#lostEvidence = evidence;
    this.#events.judge(evidence === 'doubtful' ? evidence : 'unknown');
  }

  /** Delivers what waits: at most `most` now, the rest in further turns. */
  #deliver(most = this.#inOneTurn()): void {
    clearTimeout(this.#lookTimer);
    this.#lookTimer = undefined;
    if (this.#events.isUnjudged() || this.#lost.has('overflow')) this.#judge();
    if (this.#lost.size > 0) {
      if (this.#lost.has('overflow')) this.#events.overflowed();
      this.#lost.clear();
      this.#passes.request('all');
    }
    this.#tell(most);
    if (this.#closing.signal.aborted) return;
    if (this.#kernel.hasPending) this.#pendingTimer ??= setTimeout(this.#resolvePending, PENDING_MS);
  }

  #inOneTurn(): number {
    return Math.max(TOLD_IN_A_TURN, Math.ceil(this.#events.size / TURNS));
  }

  #tell(most: number): void {
    this.#events.deliver(most);
    if (this.#events.size === 0 || this.#closing.signal.aborted) return;
    this.#nextTurn ??= setImmediate(() => {
      this.#nextTurn = undefined;
      this.#tell(this.#inOneTurn());
    });
  }

  readonly #resolvePending = (): void => {
    this.#pendingTimer = undefined;
    this.#kernel.resolvePending(this.#readAll);
    this.#deliver();
  };

  /** This directory reports no events: scans must find its files. */
  #scanFor(dir: RelPath, error: unknown): void {
    if (errnoOf(error) === 'EACCES') return this.#warnings.say(forbidden(dir, error));
    this.#warnings.say(noEvents(dir, error, this.#options.rescanMs));
    this.#scanFromNowOn();
  }

  #scanFromNowOn(): void {
    this.#lastSeen ??= new LastSeen();
    this.#passes.repeat(this.#options.rescanMs);
  }

  /**
   * Reports all declared files as `scan`, or only those whose state {@link LastSeen} does not know. Each directory gets
   * its watch before it is read, so that what is made meanwhile causes an event. At the end, the watches of directories
   * that are gone are removed.
   */
  async #rescan(kind: PassKind, signal: AbortSignal): Promise<void> {
    this.#kernel.beginPass();
    if (kind === 'new' && this.#lastSeen !== undefined) await this.#tellNew(this.#lastSeen, signal);
    else await this.#tellAll(signal);
    this.#kernel.endPass();
  }

  async #tellAll(signal: AbortSignal): Promise<void> {
    const evidence = this.#lostEvidence;
    this.#lostEvidence = 'unknown';
    for await (const paths of listTreeInTurns(this.#kernel.walk, signal)) {
      for (const path of paths) this.#events.add(path, 'scan', { evidence });
      this.#deliver();
    }
  }

  async #tellNew(seen: LastSeen, signal: AbortSignal): Promise<void> {
    // A second check: an event may have reported this state since the pool looked.
    const isNewNow = ({ path, facts }: FoundFile): boolean => {
      if (!seen.isNew(path, facts)) return false;
      const now = lookAt(this.#options.root, path);
      return now !== undefined && seen.isNew(path, now.facts);
    };
    for await (const files of findInTurns(this.#kernel.walk, this.#lookOn, signal)) {
      for (const file of files)
        if (isNewNow(file)) this.#events.add(file.path, 'scan', { evidence: 'unknown' });
      this.#deliver();
    }
    seen.forgetGone();
  }
}

interface EventQueueOptions {
  readonly onClosed: (event: ClosedEvent) => void;
  /** Closes were lost after those that were delivered. */
  readonly onOverflow: () => void;
}

const OVERFLOW = Symbol('overflow');
type Waiting = (Omit<ClosedEvent, 'evidence'> & { evidence?: Evidence | undefined }) | typeof OVERFLOW;

/** Delivered events are removed from the array once there are this many. */
const MOST_TOLD = 1024;

/**
 * Events wait here in the kernel's order until everything that was read is parsed, and until their turn comes. Only
 * deliver() runs foreign code: a drain from inside a callback continues with the next event and overtakes none.
 */
class EventQueue {
  readonly #options: EventQueueOptions;
  #waiting: Waiting[] = [];
  #next = 0;
  #added = 0;
  /** All events before this index have their evidence. */
  #unjudged = 0;

  constructor(options: EventQueueOptions) {
    this.#options = options;
  }

  /** How many were ever added. */
  get added(): number {
    return this.#added;
  }

  /** How many wait. */
  get size(): number {
    return this.#waiting.length - this.#next;
  }

  /** Without `evidence`, {@link judge} gives it later. */
  add(path: RelPath, how: ClosedHow, { evidence, since }: Reported = {}): void {
    this.#added += 1;
    this.#waiting.push({ path, how, atMs: clockMs(), evidence, seq: this.#added, since });
  }

  /** Some of the events that would follow are lost. */
  overflowed(): void {
    this.#waiting.push(OVERFLOW);
  }

  /** How many events wait up to and including the last one of this file; 0 if it has none. */
  upTo(path: RelPath): number {
    for (let at = this.#waiting.length - 1; at >= this.#next; at -= 1) {
      const event = this.#waiting[at];
      if (event !== undefined && event !== OVERFLOW && event.path === path) return at + 1 - this.#next;
    }
    return 0;
  }

  /** True while something waits that has no evidence yet. */
  isUnjudged(): boolean {
    this.#passJudged();
    return this.#unjudged < this.#waiting.length;
  }

  /** Gives this evidence to all that have none yet. */
  judge(evidence: Evidence): void {
    for (let at = this.#unjudged; at < this.#waiting.length; at += 1) {
      const event = this.#waiting[at];
      if (event !== undefined && event !== OVERFLOW) event.evidence ??= evidence;
    }
    this.#unjudged = this.#waiting.length;
  }

  /**
   * Delivers at most `most` of the waiting events that have their evidence. If the receiver throws, the next call
   * delivers the rest.
   */
  deliver(most: number): void {
    this.#passJudged();
    for (let left = most; left > 0 && this.#next < this.#unjudged; left -= 1) {
      const event = this.#waiting[this.#next];
      this.#next += 1;
      if (event === OVERFLOW) this.#options.onOverflow();
      else if (event !== undefined)
        this.#options.onClosed({ ...event, evidence: event.evidence ?? 'unknown' });
    }
    if (this.#next < this.#waiting.length && this.#next < MOST_TOLD) return;
    this.#waiting.splice(0, this.#next);
    this.#unjudged -= this.#next;
    this.#next = 0;
  }

  #passJudged(): void {
    const waiting = this.#waiting;
    while (this.#unjudged < waiting.length && !needsEvidence(waiting[this.#unjudged])) this.#unjudged += 1;
  }
}

function needsEvidence(event: Waiting | undefined): boolean {
  return event !== undefined && event !== OVERFLOW && event.evidence === undefined;
}
