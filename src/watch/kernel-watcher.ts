// The watcher on inotify: joins the reader, the kernel's events, what is known of who died, and the passes. On a local
// file system whose directories are all watched it is idle when the task is, but for a look at the task's processes now
// and then.
import { errnoOf } from '../model/errors.ts';
import type { Evidence } from '../model/file/evidence.ts';
import type { ClosedEvent, ClosedHow } from '../model/file/file-state.ts';
import type { RelPath } from '../model/path.ts';
import { clockMs } from '../native/clock.ts';
import { networkFileSystem } from '../native/network-files.ts';
import { mayBeMore } from './event-bytes.ts';
import type { OnBytes, Reader } from './inotify.ts';
import { KernelEvents } from './kernel-events.ts';
import { LastSeen, Passes, type PassKind } from './passes.ts';
import { findInTurns, listTreeInTurns, lookAt, type FoundFile, type LookOn, type Walk } from './scan.ts';
import { openTestedReader } from './self-test.ts';
import { forbidden, networkFiles, noEvents, Warnings } from './warnings.ts';
import type { Watcher, WatcherOptions, WatchSystem } from './watching.ts';

/** A new name, or half of a rename, is decided about after this long, or at once by drainNow(). */
const PENDING_MS = 5;
/** What was read early, and nobody asks for, is told after this long, with all that comes meanwhile. */
const SOON_MS = 20;

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
  readonly #options: WatcherOptions;
  readonly #reader: Reader;
  readonly #network: string | undefined;
  readonly #lookOn: LookOn;
  readonly #warnings: Warnings;
  readonly #events: EventQueue;
  readonly #kernel: KernelEvents;
  readonly #passes: Passes;
  readonly #lost = new Set<'overflow' | 'displaced'>();
  /** How many wait for closes that are told at once. */
  #hurries = 0;
  /** Of the closes that the kernel dropped before the next walk. */
  #lostEvidence: Evidence = 'unknown';
  readonly #closing = new AbortController();
  /** Only where scans are needed beside the events. */
  #lastSeen: LastSeen | undefined;
  #pendingTimer: NodeJS.Timeout | undefined;
  #lookTimer: NodeJS.Timeout | undefined;
  #ended: Promise<void> | undefined;

  constructor(options: WatcherOptions, reader: Reader, network: string | undefined) {
    const { root, interest } = options;
    this.mode = reader.mode;
    if (reader.mode !== 'inotify')
      this.fallback = 'the event loop reports no events of an inotify descriptor';
    this.#options = options;
    this.#reader = reader;
    this.#network = network;
    this.#lookOn = network === undefined ? 'thread' : 'pool';
    this.#warnings = new Warnings(options.onWarning);
    this.#events = new EventQueue((event) => {
      if (this.#closing.signal.aborted) return;
      // Before the receiver looks at the file: what changes from here on is new to the next scan.
      const file = this.#lastSeen === undefined ? undefined : lookAt(root, event.path);
      if (file !== undefined) this.#lastSeen?.note(event.path, file.facts);
      options.onClosed(event);
    });
    this.#kernel = new KernelEvents({
      root,
      interest,
      reader,
      onClosed: (path, how, evidence) => this.#events.add(path, how, evidence),
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
    for await (const _ of listTreeInTurns(this.#kernel.walk, this.#closing.signal)) this.#deliver();
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
    this.#readAll();
    this.#kernel.resolvePending(this.#readAll);
    this.#deliver();
  }

  /** Without a look at the task's processes for each push of a task that closes file after file. */
  catchUp(path: RelPath): void {
    if (this.#closing.signal.aborted) return;
    this.#readAll();
    // A close of this file may be among those that the kernel dropped.
    if (this.#lost.has('overflow')) this.#events.add(path, 'scan');
    if (this.#events.holds(path)) return this.#deliver();
    if (this.#events.isEmpty() && !this.#kernel.hasPending && this.#lost.size === 0) return;
    this.#lookTimer ??= setTimeout(() => this.#deliver(), SOON_MS);
  }

  tellAtOnce(): () => void {
    this.#hurries += 1;
    this.#reader.readAtOnce(true);
    return () => {
      this.#hurries -= 1;
      if (this.#hurries === 0) this.#reader.readAtOnce(false);
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
    await this.#passes.close();
    await this.#reader.close();
  }

  readonly #accept: OnBytes = (bytes, length) => {
    this.#kernel.accept(bytes, length);
    // More waits, and at its end the kernel may say that it dropped some.
    if (mayBeMore(bytes, length)) this.#readAll();
    const nextLookMs = this.#events.isUnjudged() ? (this.#options.witness?.nextMs ?? 0) : 0;
    const pauseMs = nextLookMs - performance.now();
    if (pauseMs <= 0) this.#deliver();
    else this.#lookTimer ??= setTimeout(() => this.#deliver(), pauseMs);
  };

  readonly #readAll = (): void => this.#reader.drain(this.#kernel.accept);

  /** After the closes were read, and before anybody acts on them. */
  #judge(): void {
    const evidence = this.#options.witness?.judge() ?? 'unknown';
    // What a death closed before it was seen may still be queued: the next look does not see that death again.
    if (evidence === 'doubtful') this.#readAll();
    if (!this.#lost.has('overflow')) return this.#events.judge(evidence);
    // The last close of a file may be one that was dropped: a death that was seen may have made that one.
    if (evidence === 'doubtful') this.#lostEvidence = evidence;
    this.#events.judge(evidence === 'doubtful' ? evidence : 'unknown');
  }

  #deliver(): void {
    clearTimeout(this.#lookTimer);
    this.#lookTimer = undefined;
    if (this.#events.isUnjudged() || this.#lost.has('overflow')) this.#judge();
    this.#events.deliver();
    if (this.#closing.signal.aborted) return;
    if (this.#kernel.hasPending) this.#pendingTimer ??= setTimeout(this.#resolvePending, PENDING_MS);
    if (this.#lost.size === 0) return;
    const overflow = this.#lost.has('overflow');
    this.#lost.clear();
    this.#passes.request('all');
    if (overflow) this.#options.onOverflow();
  }

  readonly #resolvePending = (): void => {
    this.#pendingTimer = undefined;
    this.#kernel.resolvePending(this.#readAll);
    this.#deliver();
  };

  /** This directory gives no events. */
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
   * Tells all declared files as `scan`, or only those that {@link LastSeen} does not know in this state. Each directory
   * gets its watch before it is read, so that what is made meanwhile causes an event; at the end the watches of
   * directories that are gone are given back.
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
      for (const path of paths) this.#events.add(path, 'scan', evidence);
      this.#deliver();
    }
  }

  async #tellNew(seen: LastSeen, signal: AbortSignal): Promise<void> {
    // Looked at once more: its event may have been told since the pool looked, and then this is old news.
    const isNewNow = ({ path, facts }: FoundFile): boolean => {
      if (!seen.isNew(path, facts)) return false;
      const now = lookAt(this.#options.root, path);
      return now !== undefined && seen.isNew(path, now.facts);
    };
    for await (const files of findInTurns(this.#kernel.walk, this.#lookOn, signal)) {
      for (const file of files) if (isNewNow(file)) this.#events.add(file.path, 'scan', 'unknown');
      this.#deliver();
    }
    seen.forgetGone();
  }
}

/**
 * Events wait here in the kernel's order until all that was read has been understood. Only deliver() runs foreign code, so
 * that a drain from inside a callback goes on with the next event instead of overtaking it.
 */
class EventQueue {
  readonly #onClosed: (event: ClosedEvent) => void;
  #waiting: (Omit<ClosedEvent, 'evidence'> & { evidence?: Evidence | undefined })[] = [];
  #next = 0;
  /** All before this one have their evidence. */
  #unjudged = 0;

  constructor(onClosed: (event: ClosedEvent) => void) {
    this.#onClosed = onClosed;
  }

  /** Without `evidence`, {@link judge} gives it later. */
  add(path: RelPath, how: ClosedHow, evidence?: Evidence): void {
    this.#waiting.push({ path, how, atMs: clockMs(), evidence });
  }

  isEmpty(): boolean {
    return this.#next === this.#waiting.length;
  }

  /** True while an event of this file waits. */
  holds(path: RelPath): boolean {
    for (let at = this.#next; at < this.#waiting.length; at += 1)
      if (this.#waiting[at]?.path === path) return true;
    return false;
  }

  /** True while something waits that has no evidence yet. */
  isUnjudged(): boolean {
    const waiting = this.#waiting;
    while (this.#unjudged < waiting.length && waiting[this.#unjudged]?.evidence !== undefined)
      this.#unjudged += 1;
    return this.#unjudged < waiting.length;
  }

  /** Gives this evidence to all that have none yet. */
  judge(evidence: Evidence): void {
    for (const event of this.#waiting.slice(this.#unjudged)) event.evidence ??= evidence;
    this.#unjudged = this.#waiting.length;
  }

  /** Hands out everything that waits. When the receiver throws, the rest goes with the next call. */
  deliver(): void {
    for (let event = this.#waiting[this.#next]; event !== undefined; event = this.#waiting[this.#next]) {
      this.#next += 1;
      this.#onClosed({ ...event, evidence: event.evidence ?? 'unknown' });
    }
    this.#waiting = [];
    this.#next = 0;
    this.#unjudged = 0;
  }
}
