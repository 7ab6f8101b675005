// Read this first. The watcher reports which declared files were closed: by inotify where it works, with scans beside
// it where events are not enough, and by other means where inotify is not available. It never reads a file and never
// decides whether a file is whole: the snapshot does.
import { fileSystemType } from '../native/network-files.ts';
import { libcInotify, openEpollReader, openPollReader } from './inotify.ts';
import { openKernelWatcher } from './kernel-watcher.ts';
import { openPortable, parcelSubscribe } from './portable.ts';
import type { Watcher, WatcherOptions, WatchSystem } from './watching.ts';

export const thisSystem: WatchSystem = {
  calls: libcInotify,
  readers: [openEpollReader, openPollReader],
  fileSystemType,
  subscribe: parcelSubscribe,
};

/**
 * Resolves when every directory that can hold a declared file is watched. Files that exist already are not reported:
 * {@link Watcher.scan} finds them. Files that are closed meanwhile may be reported before this resolves. The process
 * must have a SIGIO handler (see writerState).
 */
export async function openWatcher(
  options: WatcherOptions,
  system: WatchSystem = thisSystem,
): Promise<Watcher> {
  let reason: unknown;
  try {
    return await openKernelWatcher(options, system);
  } catch (error) {
    reason = error;
  }
  return openPortable(options, reason, system.subscribe);
}
