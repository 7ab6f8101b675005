// The watcher where inotify cannot be had: @parcel/watcher says that something changed, quiet time stands for
// the close, and scans find what neither told. It is late, never wrong: the snapshot still proves each file.
import fs from 'node:fs';
import path from 'node:path';
import { errnoOf, reasonOf } from '../model/errors.ts';
import type { RelPath } from '../model/path.ts';
import { clockMs } from '../native/clock.ts';
import { openPasses } from './passes.ts';
import { openQuietFiles, type QuietFiles } from './quiet.ts';
import { findAll, findInTurns, listTree, lookAt, type Walk } from './scan.ts';
import { openSeen } from './seen.ts';
import { forbidden, noInotify, openWarnings, scansAlone } from './warnings.ts';
import type { Subscribe, Watcher, WatcherOptions } from './watching.ts';

/** How long a file must not change before it counts as closed. */
const QUIET_MS = 1000;

export const parcelSubscribe: Subscribe = async (dir, onChange) => {
  const { default: parcel } = await import('@parcel/watcher');
  return parcel.subscribe(dir, onChange);
};

/** `reason` is why inotify is not used. One warning says what takes its place. */
export async function openPortable(
  options: WatcherOptions,
  reason: unknown,
  subscribe: Subscribe,
): Promise<Watcher> {
  const warn = openWarnings(options.onWarning);
  const seen = openSeen();
  const walk: Walk = {
    root: options.root,
    interest: options.interest,
    onUnreadable: (dir, error) => warn(forbidden(dir, error)),
  };
  const quiet = openQuietFiles({
    quietMs: QUIET_MS,
    look: (file) => lookAt(walk.root, file),
    onQuiet: ({ path: file, facts }) => {
      if (!seen.isNew(file, facts)) return;
      seen.note(file, facts);
      options.onClosed({ path: file, how: 'quiet', atMs: clockMs(), evidence: 'unknown' });
    },
  });
  const passes = openPasses(async (_kind, signal) => {
    for await (const files of findInTurns(walk, 'pool', signal)) {
      for (const file of files) {
        if (seen.isNew(file.path, file.facts)) quiet.watch(file.path);
      }
    }
    seen.forgetGone();
  });
  const start = async (): Promise<Awaited<ReturnType<Subscribe>> | undefined> => {
    // On Linux it needs an inotify instance of its own, and without one it never answers.
    if (errnoOf(reason) === 'EMFILE') return undefined;
    // macOS reports real paths (/private/tmp for /tmp).
    const root = fs.realpathSync(walk.root.path);
    try {
      return await subscribe(root, (error, events) => {
        if (error !== null) passes.request('new');
        for (const event of events ?? []) {
          if (event.type !== 'delete') watchAll(walk, quiet, path.relative(root, event.path));
        }
      });
    } catch {
      // Why inotify failed is what the user can mend; this failure follows from it.
      return undefined;
    }
  };
  for (const file of await findAll(walk, 'pool')) seen.note(file.path, file.facts);
  const subscription = await start();
  const describe = subscription === undefined ? scansAlone : noInotify;
  warn(describe(walk.root.path, reason, options.rescanMs));
  passes.repeat(options.rescanMs);
  const end = async (): Promise<void> => {
    await subscription?.unsubscribe();
    await passes.close();
    quiet.close();
  };
  let ended: Promise<void> | undefined;
  return {
    mode: 'portable',
    fallback: reasonOf(reason),
    look: () => undefined,
    drainNow: () => undefined,
    unclosed: () => [],
    missesCloses: () => true,
    scan: (signal, onUnreadable = walk.onUnreadable) =>
      findInTurns({ ...walk, onUnreadable }, 'pool', signal),
    close: () => (ended ??= end()),
  };
}

/** A directory that was renamed into place is one event for all that is in it. */
function watchAll(walk: Walk, quiet: QuietFiles, changed: RelPath): void {
  if (lookAt(walk.root, changed) === undefined) {
    for (const files of listTree(walk, changed)) for (const file of files) quiet.watch(file);
  } else if (walk.interest.wants(changed)) quiet.watch(changed);
}
