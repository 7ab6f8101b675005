// What a watcher is, whichever way it finds out: the words that inotify's and the portable one share.
import type { AsyncSubscription, SubscribeCallback } from '@parcel/watcher';
import type { ClosedEvent, Interest } from '../model/file/file-state.ts';
import type { RelPath } from '../model/path.ts';
import type { WorkDir } from '../native/beneath.ts';
import type { InotifyCalls, OpenReader } from './inotify.ts';
import type { FoundFile, Walk } from './scan.ts';
import type { SpareInstance } from './spare-instance.ts';
import type { Witness } from './witness.ts';

export interface WatcherOptions {
  /** The work directory: an open descriptor and its absolute path. Both stay the caller's. */
  readonly root: WorkDir;
  readonly interest: Interest;
  /** Called in the kernel's order, never while another call is under way, except out of its own drainNow(). */
  readonly onClosed: (event: ClosedEvent) => void;
  /** The kernel dropped events; a walk over the whole tree, which tells every file, has been started. */
  readonly onOverflow: () => void;
  readonly onWarning: (message: string, hint: string) => void;
  /** Time between two scans, where scans are needed. */
  readonly rescanMs: number;
  /** For where this watcher gets no inotify instance of its own; one of several in a process. */
  readonly spare?: SpareInstance | undefined;
  /** Says who closed a file; undefined: nobody can. It stays the caller's. */
  readonly witness?: Pick<Witness, 'judge' | 'nextMs' | 'whenDue'> | undefined;
}

export interface Watcher {
  /** `inotify-read`: as `inotify`, with a thread that waits for events. */
  readonly mode: 'inotify' | 'inotify-read' | 'portable';
  /** Why the mode is not `inotify`. */
  readonly fallback: string | undefined;
  /**
   * Tells, before it returns, every close that the kernel knows at this moment, in order. Where there is no
   * inotify it can tell nothing: use {@link scan}.
   */
  drainNow(): void;
  /** Tells, before it returns, every close of this file that the kernel knows at this moment; others soon. */
  catchUp(path: RelPath): void;
  /**
   * Until the function that it returns is called, closes are told one by one, as they come: a file that is written without
   * a pause is at rest only for a moment after each.
   */
  tellAtOnce(): () => void;
  /** Takes a look at the task's processes, so that a death until now is told from one later. */
  look(): void;
  /** Declared files that appeared and that nobody has closed yet; none where there is no inotify. */
  unclosed(): readonly RelPath[];
  /** True while closes may have given no event: then only {@link scan} is sure to find what is closed by now. */
  missesCloses(): boolean;
  /**
   * Every declared file that is there, whether told or not, in pieces: there may be very many. Throws when
   * `signal` aborts. `onUnreadable` is told each directory that could not be read.
   */
  scan(signal?: AbortSignal, onUnreadable?: Walk['onUnreadable']): AsyncIterable<readonly FoundFile[]>;
  /** Nothing is told after this; the last descriptor is closed when it resolves. */
  close(): Promise<void>;
}

/** Starts a recursive watch of a directory. */
export type Subscribe = (dir: string, onChange: SubscribeCallback) => Promise<AsyncSubscription>;

/** What a test replaces to be on another machine. */
export interface WatchSystem {
  readonly calls: InotifyCalls;
  /** In the order in which they are tried. */
  readonly readers: readonly OpenReader[];
  readonly fileSystemType: (path: string) => number;
  readonly subscribe: Subscribe;
}
