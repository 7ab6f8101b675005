// The interface of a watcher: the types that the inotify watcher and the portable one share.
import type { AsyncSubscription, SubscribeCallback } from '@parcel/watcher';
import type { ClosedEvent, Interest } from '../model/file/file-state.ts';
import type { RelPath } from '../model/path.ts';
import type { WorkDir } from '../native/beneath.ts';
import type { InotifyCalls, OpenReader } from './inotify.ts';
import type { LinkInterest } from './behind-links.ts';
import type { LinkedDirectories } from './linked-directories.ts';
import type { FoundFile, Walk } from './scan.ts';
import type { SpareInstance } from './spare-instance.ts';
import type { Witness } from './witness.ts';

export interface WatcherOptions {
  /** The work directory: an open descriptor and its absolute path. Both stay the caller's. */
  readonly root: WorkDir;
  readonly interest: Interest;
  /** Called in the kernel's order. Calls never overlap, except when the callback itself calls drainNow(). */
  readonly onClosed: (event: ClosedEvent) => void;
  /** The kernel dropped events. A walk over the whole tree, which reports every file, has started. */
  readonly onOverflow: () => void;
  readonly onWarning: (message: string, hint: string) => void;
  /** Time between two scans, where scans are needed. */
  readonly rescanMs: number;
  /** Of links to directories; undefined: as `interest`. */
  readonly linkInterest?: LinkInterest | undefined;
  /** Used if this watcher gets no inotify instance of its own, where a process has several watchers. */
  readonly spare?: SpareInstance | undefined;
  /** Says which process closed a file; undefined: nobody can. The caller keeps it and closes it. */
  readonly witness?: Pick<Witness, 'judge' | 'nextMs' | 'whenDue'> | undefined;
}

export interface Watcher {
  /** `inotify-read`: as `inotify`, with a thread that waits for events. */
  readonly mode: 'inotify' | 'inotify-read' | 'portable';
  /** Why the mode is not `inotify`. */
  readonly fallback: string | undefined;
  /**
   * Reports, before it returns and in order, every close that the kernel knows at this moment. Without inotify it can
   * report nothing: use {@link scan}.
   */
  drainNow(): void;
  /**
   * Reports, before it returns, every close of this file that the kernel knows at this moment; other closes follow
   * soon.
   */
  catchUp(path: RelPath): void;
  /**
   * Closes are reported one by one, as they arrive, until the returned function is called: a file that is written
   * without a pause is at rest only for a moment after each close.
   */
  tellAtOnce(): () => void;
  /** Looks at the task's processes, so that a death up to now can be told from a later one. */
  look(): void;
  /** Links to directories that events, walks and scans have met so far. */
  readonly links: LinkedDirectories;
  /** Declared files that appeared and that nobody has closed yet; empty where inotify is not used. */
  unclosed(): readonly RelPath[];
  /** True while some closes may cause no event: then only {@link scan} is sure to find what was closed by now. */
  missesCloses(): boolean;
  /**
   * Every declared file that exists, reported or not, in pieces because there may be very many. Throws when `signal`
   * aborts. `onUnreadable` gets each directory that could not be read.
   */
  scan(signal?: AbortSignal, onUnreadable?: Walk['onUnreadable']): AsyncIterable<readonly FoundFile[]>;
  /** Nothing is reported after this call. When it resolves, the last descriptor is closed. */
  close(): Promise<void>;
}

/** Starts a recursive watch of a directory. */
export type Subscribe = (dir: string, onChange: SubscribeCallback) => Promise<AsyncSubscription>;

/** The parts of the system that a test replaces to simulate another machine. */
export interface WatchSystem {
  readonly calls: InotifyCalls;
  /** They are tried in this order. */
  readonly readers: readonly OpenReader[];
  readonly fileSystemType: (path: string) => number;
  readonly subscribe: Subscribe;
}
