// The watcher where inotify does not work: @parcel/watcher says that something changed, quiet time stands for the
// close, and scans find what neither told. It is late, never wrong: the snapshot still proves each file.
import fs from 'node:fs';
import path from 'node:path';
import { errnoOf, reasonOf } from '../model/errors.ts';
import { sameFingerprint } from '../model/file/file-state.ts';
import type { RelPath } from '../model/path.ts';
import { clockMs } from '../native/clock.ts';
import { openLastSeen } from './last-seen.ts';
import { openPasses } from './passes.ts';
import { findAll, findInTurns, type FoundFile, listTree, lookAt, type Walk } from './scan.ts';
import { forbidden, noInotify, openWarnings, scansAlone } from './warnings.ts';
import type { Subscribe, Watcher, WatcherOptions } from './watching.ts';

/** How long a file must not change before it counts as closed. */
const QUIET_MS = 1000;
/** Looks at a waiting file so often within that time. */
const LOOKS = 4;

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
  const seen = openLastSeen();
  const walk: Walk = {
    root: options.root,
    interest: options.interest,
    onUnreadable: (dir, error) => warn(forbidden(dir, error)),
  };
  const quiet = openQuietFiles(
    (file) => lookAt(walk.root, file),
    ({ path: file, facts }) => {
      if (!seen.isNew(file, facts)) return;
      seen.note(file, facts);
      options.onClosed({ path: file, how: 'quiet', atMs: clockMs(), evidence: 'unknown' });
    },
  );
  const passes = openPasses(async (_kind, signal) => {
    for await (const files of findInTurns(walk, 'pool', signal)) {
      for (const file of files) {
        if (seen.isNew(file.path, file.facts)) quiet.watch(file.path);
      }
    }
    seen.forgetGone();
  });
  for (const file of await findAll(walk, 'pool')) seen.note(file.path, file.facts);
  const subscription = await subscribed(walk, reason, subscribe, (error, changed) => {
    if (error !== null) passes.request('new');
    for (const file of changed) watchAll(walk, quiet, file);
  });
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

/** Undefined where nothing tells of changes: scans alone find them. */
async function subscribed(
  { root }: Walk,
  reason: unknown,
  subscribe: Subscribe,
  onChanged: (error: Error | null, changed: readonly RelPath[]) => void,
): Promise<Awaited<ReturnType<Subscribe>> | undefined> {
  // It needs an inotify instance of its own, and without one it never answers.
  if (errnoOf(reason) === 'EMFILE') return undefined;
  const real = fs.realpathSync(root.path);
  try {
    return await subscribe(real, (error, events) => {
      // Null at an error, whatever the types say.
      const changed = (events ?? []).filter((event) => event.type !== 'delete');
      onChanged(
        error,
        changed.map((event) => path.relative(real, event.path)),
      );
    });
  } catch {
    // Why inotify failed is what the user can mend; this failure follows from it.
    return undefined;
  }
}

/** A directory that was renamed into place is one event for all that is in it. */
function watchAll(walk: Walk, quiet: QuietFiles, changed: RelPath): void {
  if (lookAt(walk.root, changed) === undefined) {
    for (const files of listTree(walk, changed)) for (const file of files) quiet.watch(file);
  } else if (walk.interest.wants(changed)) quiet.watch(changed);
}

/** A file counts as closed when it has not changed for a while. A timer runs only while one is waiting. */
interface QuietFiles {
  /** Something happened to this file: wait until nothing does. */
  watch(path: RelPath): void;
  close(): void;
}

interface Waiting {
  readonly file: FoundFile;
  readonly sinceMs: number;
}

/** `onQuiet` is called once for each change that was followed by a quiet time without one. */
function openQuietFiles(
  look: (path: RelPath) => FoundFile | undefined,
  onQuiet: (file: FoundFile) => void,
): QuietFiles {
  const waiting = new Map<RelPath, Waiting>();
  let timer: NodeJS.Timeout | undefined;
  const arm = (): void => {
    if (waiting.size > 0) timer ??= setTimeout(lookAgain, QUIET_MS / LOOKS);
  };
  const lookAgain = (): void => {
    timer = undefined;
    const nowMs = performance.now();
    for (const [path, { file, sinceMs }] of waiting) {
      const now = look(path);
      if (now === undefined) waiting.delete(path);
      else if (!sameFingerprint(now.facts, file.facts)) waiting.set(path, { file: now, sinceMs: nowMs });
      else if (nowMs - sinceMs >= QUIET_MS) {
        waiting.delete(path);
        onQuiet(now);
      }
    }
    arm();
  };
  return {
    watch: (path) => {
      if (waiting.has(path)) return;
      const file = look(path);
      if (file !== undefined) waiting.set(path, { file, sinceMs: performance.now() });
      arm();
    },
    close: () => {
      clearTimeout(timer);
      waiting.clear();
    },
  };
}
