// The watcher where inotify does not work. @parcel/watcher reports changes, a quiet time stands for the close, and
// scans find what neither reported. It may be late, never wrong: the snapshot still proves each file.
import fs from 'node:fs';
import path from 'node:path';
import { CaptureError, errnoOf, reasonOf } from '../model/errors.ts';
import { sameFingerprint } from '../model/file/file-state.ts';
import type { RelPath } from '../model/path.ts';
import { clockMs } from '../native/clock.ts';
import { loadParcel } from '../native/parcel.ts';
import { LinkedDirectories } from './linked-directories.ts';
import { LastSeen, Passes } from './passes.ts';
import { findInTurns, type FoundFile, listTree, lookAt, type Walk } from './scan.ts';
import { forbidden, noInotify, Warnings, scansAlone } from './warnings.ts';
import type { Subscribe, Watcher, WatcherOptions } from './watching.ts';

/** A file counts as closed if it did not change for this long. */
const QUIET_MS = 1000;
/** How often a waiting file is looked at within that time. */
const LOOKS = 4;

export const parcelSubscribe: Subscribe = async (dir, onChange) => {
  const parcel = loadParcel();
  const options = {};
  await parcel.subscribe(dir, onChange, options);
  return { unsubscribe: () => parcel.unsubscribe(dir, onChange, options) };
};

/** `reason`: why inotify is not used. One warning says what replaces it. */
export async function openPortable(
  options: WatcherOptions,
  reason: unknown,
  subscribe: Subscribe,
): Promise<Watcher> {
  const warnings = new Warnings(options.onWarning);
  const seen = new LastSeen();
  const links = new LinkedDirectories(options.root, options.linkInterest ?? options.interest);
  const walk: Walk = {
    root: options.root,
    interest: options.interest,
    onLink: links.note,
    onUnreadable: (dir, error) => warnings.say(forbidden(dir, error)),
  };
  const quiet = new QuietFiles(
    (file) => lookAt(walk.root, file),
    ({ path: file, facts }) => {
      if (!seen.isNew(file, facts)) return;
      seen.note(file, facts);
      options.onClosed({ path: file, how: 'quiet', atMs: clockMs(), evidence: 'unknown', seq: 0 });
    },
  );
  const passes = new Passes(async (_kind, signal) => {
    for await (const files of findInTurns(walk, 'pool', signal))
      for (const { path: file, facts } of files) if (seen.isNew(file, facts)) quiet.watch(file);
    seen.forgetGone();
  });
  for await (const files of findInTurns(walk, 'pool'))
    for (const file of files) seen.note(file.path, file.facts);
  const subscription = await subscribed(walk, reason, subscribe, (error, changed) => {
    if (error !== null) passes.request('new');
    for (const file of changed) {
      links.appeared(file);
      watchAll(walk, quiet, file);
    }
  });
  const describe = typeof subscription === 'string' ? scansAlone(subscription) : noInotify;
  warnings.say(describe(walk.root.path, reason, options.rescanMs));
  passes.repeat(options.rescanMs);
  const end = async (): Promise<void> => {
    if (typeof subscription !== 'string') await subscription.unsubscribe();
    await passes.close();
    quiet.close();
  };
  let ended: Promise<void> | undefined;
  return {
    mode: 'portable',
    fallback: reasonOf(reason),
    look: () => undefined,
    drainNow: () => undefined,
    catchUp: () => undefined,
    tellAtOnce: () => () => undefined,
    links,
    unclosed: () => [],
    missesCloses: () => true,
    scan: (signal, onUnreadable = walk.onUnreadable) =>
      findInTurns({ ...walk, onUnreadable }, 'pool', signal),
    close: () => (ended ??= end()),
  };
}

/**
 * Resolves to a text if nothing reports changes and scans alone find them: the warning adds it. The warning's reason is
 * why inotify failed, which the user can fix; a failure to subscribe follows from it, unless the optional package is
 * missing.
 */
async function subscribed(
  { root }: Walk,
  reason: unknown,
  subscribe: Subscribe,
  onChanged: (error: Error | null, changed: readonly RelPath[]) => void,
): Promise<Awaited<ReturnType<Subscribe>> | string> {
  // @parcel/watcher needs an inotify instance of its own. Without one it never answers.
  if (errnoOf(reason) === 'EMFILE') return '';
  const real = fs.realpathSync(root.path);
  try {
    return await subscribe(real, (error, events) => {
      // Null after an error, whatever the types say.
      const changed = (events ?? []).filter((event) => event.type !== 'delete');
      onChanged(
        error,
        changed.map((event) => path.relative(real, event.path)),
      );
    });
  } catch (error) {
    return error instanceof CaptureError ? `, and ${reasonOf(error)}` : '';
  }
}

/** A directory that was renamed into place causes one event for all the files in it. */
function watchAll(walk: Walk, quiet: QuietFiles, changed: RelPath): void {
  if (lookAt(walk.root, changed) === undefined) {
    for (const files of listTree(walk, changed)) for (const file of files) quiet.watch(file);
  } else if (walk.interest.wants(changed)) quiet.watch(changed);
}

interface Waiting {
  readonly file: FoundFile;
  readonly sinceMs: number;
}

/** A file counts as closed if it did not change for a while. A timer runs only while a file waits. */
class QuietFiles {
  readonly #look: (path: RelPath) => FoundFile | undefined;
  readonly #onQuiet: (file: FoundFile) => void;
  readonly #waiting = new Map<RelPath, Waiting>();
  #timer: NodeJS.Timeout | undefined;

  /** `onQuiet` is called once after each change, when the quiet time has passed without another one. */
  constructor(look: (path: RelPath) => FoundFile | undefined, onQuiet: (file: FoundFile) => void) {
    this.#look = look;
    this.#onQuiet = onQuiet;
  }

  /** This file changed: wait until it is quiet. */
  watch(path: RelPath): void {
    if (this.#waiting.has(path)) return;
    const file = this.#look(path);
    if (file !== undefined) this.#waiting.set(path, { file, sinceMs: performance.now() });
    this.#arm();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#waiting.clear();
  }

  #arm(): void {
    if (this.#waiting.size > 0) this.#timer ??= setTimeout(() => this.#lookAgain(), QUIET_MS / LOOKS);
  }

  #lookAgain(): void {
    this.#timer = undefined;
    const nowMs = performance.now();
    for (const [path, { file, sinceMs }] of this.#waiting) {
      const now = this.#look(path);
      if (now === undefined) this.#waiting.delete(path);
      else if (!sameFingerprint(now.facts, file.facts))
        this.#waiting.set(path, { file: now, sinceMs: nowMs });
      else if (nowMs - sinceMs >= QUIET_MS) {
        this.#waiting.delete(path);
        this.#onQuiet(now);
      }
    }
    this.#arm();
  }
}
