// A file whose appearance is the notice: for the scripts of a scheduler, and for platforms that have no source here.
// The kernel tells of it (inotify(7)). Only where another node may write it do we look every few seconds.
import fs from 'node:fs';
import path from 'node:path';
import { errnoOf, reasonOf } from '../model/errors.ts';
import type { Notice } from '../model/format/notice.ts';
import { encodePath, pathBytes, showPath } from '../model/path.ts';
import { parseDurationMs } from '../model/units.ts';
import { newDeferred } from '../model/waiting.ts';
import { networkFileSystem } from '../native/network-files.ts';
import { pause } from './metadata.ts';
import { atInstant, instantMs, type Source, type SourceOptions } from './source.ts';

/** An instant or a duration is short; anything longer is not read. */
const LARGEST_BYTES = 64;

/** What the file holds if nothing is certain yet. */
export const ADVICE = 'advice';

/** `file` is relative to the current directory, or absolute. `instantIn` says what else it may hold. */
export class FileSource implements Source {
  readonly #options: SourceOptions;
  readonly #file: string;

  constructor(options: SourceOptions, file: string) {
    this.#options = options;
    this.#file = file;
  }

  run(): Promise<void> {
    return listen(this.#options, path.resolve(this.#file));
  }
}

async function listen(options: SourceOptions, file: string): Promise<void> {
  const { pace, signal, tell } = options;
  for (;;) {
    const watched = watchNearest(file, options);
    try {
      // Looked at only now: what appears after this look wakes us, what came before is seen by it.
      const notice = await noticeOf(file);
      tell(notice === undefined ? [] : [notice]);
      await (watched.isHeard ? watched.changed : pause(pace.pollMs, signal));
      signal.throwIfAborted();
    } finally {
      watched.close();
    }
  }
}

interface Watched {
  /** False: only asking again tells. */
  readonly isHeard: boolean;
  /** Something happened there, or the signal came. */
  readonly changed: Promise<void>;
  close(): void;
}

/** Watches the file's directory, or the nearest one above it that is there: it may be made later. */
function watchNearest(file: string, { signal, garbage }: SourceOptions): Watched {
  const { promise: changed, resolve } = newDeferred<void>();
  const wake = (): void => resolve();
  try {
    const watcher = watchFrom(path.dirname(file), path.basename(file), wake);
    if (watcher === undefined) return { isHeard: false, changed, close: () => undefined };
    signal.addEventListener('abort', wake, { once: true });
    const close = (): void => {
      signal.removeEventListener('abort', wake);
      watcher.close();
    };
    return { isHeard: true, changed, close };
  } catch (error) {
    garbage(`cannot watch for the notice ${showPath(file)}, looking every few seconds: ${reasonOf(error)}`);
    return { isHeard: false, changed, close: () => undefined };
  }
}

/** undefined on a network file system, where no event tells what another node does. Throws errno's. */
function watchFrom(dir: string, name: string, wake: () => void): fs.FSWatcher | undefined {
  try {
    if (networkFileSystem(fs.statfsSync(encodePath(dir)).type) !== undefined) return undefined;
    const watcher = fs.watch(encodePath(dir), { persistent: false, encoding: 'buffer' });
    // Its own name: the directory itself was removed or moved (inotify(7), IN_DELETE_SELF).
    const names = [name, path.basename(dir)].map(pathBytes);
    watcher.on('change', (_, changed: Buffer) => {
      if (names.some((name) => name.equals(changed))) wake();
    });
    watcher.on('error', wake);
    return watcher;
  } catch (error) {
    if (!ABSENT.has(errnoOf(error) ?? '') || dir === path.dirname(dir)) throw error;
  }
  const above = watchFrom(path.dirname(dir), path.basename(dir), wake);
  // Made between the two looks: no event will tell of it.
  if (isDirectory(dir)) {
    above?.close();
    return watchFrom(dir, name, wake);
  }
  return above;
}

const ABSENT: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR']);

function isDirectory(dir: string): boolean {
  return fs.statSync(encodePath(dir), { throwIfNoEntry: false })?.isDirectory() ?? false;
}

async function noticeOf(file: string): Promise<Notice | undefined> {
  const stat = await fs.promises.stat(encodePath(file)).catch(() => undefined);
  if (stat === undefined) return undefined;
  // A pipe or a device is there as well, and reading it could wait for ever.
  const isReadable = stat.isFile() && stat.size <= LARGEST_BYTES;
  const text = isReadable ? await fs.promises.readFile(encodePath(file), 'utf8').catch(() => '') : '';
  if (text.trim() === ADVICE) {
    const what = `${showPath(file)} advises: this machine may be taken away`;
    return { source: 'file', kind: 'advice', atMs: undefined, what };
  }
  const atMs = instantIn(text.trim(), stat.mtimeMs);
  const what = `${showPath(file)} is there: this machine is taken away${atInstant(atMs)}`;
  return { source: 'file', kind: 'stop', atMs, what };
}

/** `90s` from when the file was written, or `2026-01-31T08:22:00Z`; anything else says no instant. */
function instantIn(text: string, writtenMs: number): number | undefined {
  const ms = parseDurationMs(text);
  if (ms !== undefined) return Math.round(writtenMs) + ms;
  return /^\d{4}-\d\d-\d\dT/.test(text) ? instantMs(text) : undefined;
}
