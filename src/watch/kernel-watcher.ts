// The watcher on inotify: joins reader, kernel events, outbox and passes. On a local file system whose
// directories are all watched it is idle when the task is, but for a look at the task's processes now and then.
import { errnoOf } from '../model/errors.ts';
import { networkFileSystem } from '../native/network-files.ts';
import { openOutbox } from './event-queue.ts';
import { KernelEvents } from './kernel-events.ts';
import { openPasses } from './passes.ts';
import { rescan } from './rescan.ts';
import { findInTurns, listTreeInTurns, lookAt, type LookOn } from './scan.ts';
import { openSeen, type Seen } from './seen.ts';
import { openTestedReader, type TestedReader } from './self-test.ts';
import { forbidden, networkFiles, noEvents, openWarnings } from './warnings.ts';
import type { Watcher, WatcherOptions, WatchSystem } from './watching.ts';

/** A new name, or half of a rename, is decided about after this long, or at once by drainNow(). */
const SETTLE_MS = 5;

/**
 * How often the task's processes are looked at when nothing is closed: a death that is older than that casts no doubt
 * on the next close.
 */
const LOOK_EVERY_MS = 2000;

/** Throws when inotify cannot be used here; an errno is in the error's `code`. */
export async function openKernelWatcher(options: WatcherOptions, system: WatchSystem): Promise<Watcher> {
  if (system.platform !== 'linux') throw new Error('only Linux has inotify');
  const { root, interest, rescanMs } = options;
  const network = networkFileSystem(system.fileSystemType(root.path));
  const lookOn: LookOn = network === undefined ? 'thread' : 'pool';
  const warn = openWarnings(options.onWarning);
  const { reader, listen } = await openReader(system, root.path);
  const lost = new Set<'overflow' | 'displaced'>();
  const closing = new AbortController();
  let seen: Seen | undefined;
  let settleTimer: NodeJS.Timeout | undefined;
  let lookTimer: NodeJS.Timeout | undefined;

  const eventQueue = openOutbox((event) => {
    if (closing.signal.aborted) return;
    // Before the receiver looks at the file: what changes from here on is new to the next scan.
    const file = seen === undefined ? undefined : lookAt(root, event.path);
    if (file !== undefined) seen?.note(event.path, file.facts);
    options.onClosed(event);
  });
  const passes = openPasses((kind, signal) =>
    rescan(kind, { kernel, eventQueue, deliver, seen, lookOn }, signal),
  );
  const scanFromNowOn = (): void => {
    seen ??= openSeen();
    passes.repeat(rescanMs);
  };
  const kernel = new KernelEvents({
    root,
    interest,
    calls: system.calls,
    fd: reader.fd,
    eventQueue,
    onLost: (why) => void lost.add(why),
    onUncovered: (dir, error) => {
      if (errnoOf(error) === 'EACCES') return warn(forbidden(dir, error));
      warn(noEvents(dir, error, rescanMs));
      scanFromNowOn();
    },
  });
  const readAll = (): void => reader.drain(kernel.accept);
  /** After the closes were read, and before anybody acts on them. */
  const judge = (): void => {
    if (options.witness === undefined) return eventQueue.judge('unknown');
    const evidence = options.witness.judge();
    // What a death closed before it was seen may still be queued: the next look does not see that death again.
    if (evidence === 'doubtful') readAll();
    eventQueue.judge(evidence);
  };
  const deliver = (): void => {
    clearTimeout(lookTimer);
    lookTimer = undefined;
    if (eventQueue.isUnjudged) judge();
    eventQueue.deliver();
    if (closing.signal.aborted) return;
    if (kernel.isUnsettled) settleTimer ??= setTimeout(settle, SETTLE_MS);
    if (lost.size === 0) return;
    const overflow = lost.has('overflow');
    lost.clear();
    passes.request('all');
    if (overflow) options.onOverflow();
  };
  const look = (): void => {
    if (closing.signal.aborted) return;
    readAll();
    judge();
    deliver();
  };
  const settle = (): void => {
    settleTimer = undefined;
    kernel.settle(readAll);
    deliver();
  };
  const end = async (): Promise<void> => {
    closing.abort();
    clearTimeout(settleTimer);
    clearTimeout(lookTimer);
    clearInterval(looks);
    await passes.close();
    await reader.close();
  };
  let ended: Promise<void> | undefined;
  const close = (): Promise<void> => (ended ??= end());
  const looks = options.witness === undefined ? undefined : setInterval(look, LOOK_EVERY_MS).unref();

  try {
    listen((bytes, length) => {
      kernel.accept(bytes, length);
      const pauseMs = eventQueue.isUnjudged ? (options.witness?.nextMs ?? 0) - performance.now() : 0;
      if (pauseMs <= 0) deliver();
      else lookTimer ??= setTimeout(deliver, pauseMs);
    });
    kernel.watchRoot();
    for await (const _ of listTreeInTurns(kernel.walk, closing.signal)) deliver();
    if (network !== undefined) {
      warn(networkFiles(root.path, network, rescanMs));
      scanFromNowOn();
    }
    if (seen !== undefined) {
      for await (const files of findInTurns(kernel.walk, lookOn))
        for (const file of files) seen.note(file.path, file.facts);
    }
  } catch (error) {
    await close();
    throw error;
  }
  return {
    mode: reader.mode,
    fallback:
      reader.mode === 'inotify' ? undefined : 'the event loop reports no events of an inotify descriptor',
    look,
    drainNow: () => {
      if (closing.signal.aborted) return;
      readAll();
      kernel.settle(readAll);
      deliver();
    },
    unclosed: () => kernel.unclosed,
    missesCloses: () => seen !== undefined || passes.isRunning(),
    scan: (signal, onUnreadable = kernel.walk.onUnreadable) =>
      findInTurns({ ...kernel.walk, enter: undefined, onUnreadable }, lookOn, signal),
    close,
  };
}

/** The first reader that passes its test. */
async function openReader(system: WatchSystem, root: string): Promise<TestedReader> {
  for (const open of system.readers) {
    // oxlint-disable-next-line no-await-in-loop -- the next one only when this one failed
    const tested = await openTestedReader(system.calls, root, open);
    if (tested !== undefined) return tested;
  }
  throw new Error('a file was closed, and inotify told nothing of it');
}
