// A file whose appearance is the notice: for the scripts of a scheduler, and for platforms without a source here. The
// kernel reports it (inotify(7)). capture polls every few seconds only where another node may write the file.
import fs from 'node:fs';
import path from 'node:path';
import { errnoOf, reasonOf } from '../model/errors.ts';
import type { Notice } from '../model/format/notice.ts';
import { encodePath, pathBytes, showPath } from '../model/path.ts';
import { parseDurationMs } from '../model/units.ts';
import { newDeferred } from '../model/waiting.ts';
import { networkFileSystem } from '../native/network-files.ts';
import { isStrangers } from '../native/users.ts';
import { pause } from './metadata.ts';
import { atInstant, instantMs, type Source, type SourceOptions } from './source.ts';

/** An instant or a duration is short; a longer file is not read. */
const LARGEST_BYTES = 64;

/** The file's content if nothing is certain yet. */
export const ADVICE = 'advice';

/** `file` is relative to the current directory, or absolute. `instantIn` parses its content. */
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
      // Read the file only after the watch is set: a file that appears later wakes the source, an earlier one is read
      // here.
      const notice = await noticeOf(file, options);
      tell(notice === undefined ? [] : [notice]);
      await (watched.hasEvents ? watched.changed : pause(pace.pollMs, signal));
      signal.throwIfAborted();
    } finally {
      watched.close();
    }
  }
}

interface Watched {
  /** False: no events here, only polling works. */
  readonly hasEvents: boolean;
  /** Resolves after an event there, or on the signal. */
  readonly changed: Promise<void>;
  close(): void;
}

/** Watches the file's directory, or the nearest existing one above it: the directory may be created later. */
function watchNearest(file: string, { signal, garbage }: SourceOptions): Watched {
  const { promise: changed, resolve } = newDeferred<void>();
  const wake = (): void => resolve();
  try {
    const watcher = watchFrom(path.dirname(file), path.basename(file), wake);
    if (watcher === undefined) return { hasEvents: false, changed, close: () => undefined };
    signal.addEventListener('abort', wake, { once: true });
    const close = (): void => {
      signal.removeEventListener('abort', wake);
      watcher.close();
    };
    return { hasEvents: true, changed, close };
  } catch (error) {
    garbage(`cannot watch for the notice ${showPath(file)}, looking every few seconds: ${reasonOf(error)}`);
    return { hasEvents: false, changed, close: () => undefined };
  }
}

/** undefined on a network file system, where another node causes no events. Throws errors with an errno. */
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
  // It was created between the two looks, so no event will report it.
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

async function noticeOf(file: string, { garbage }: SourceOptions): Promise<Notice | undefined> {
  const stat = await fs.promises.stat(encodePath(file)).catch(() => undefined);
  const name = await fs.promises.lstat(encodePath(file)).catch(() => undefined);
  if (stat === undefined || name === undefined) return undefined;
  if (isStrangers(file, name.uid)) {
    const who = `user ${name.uid} has made it, in a directory for all users`;
    garbage(`the notice ${showPath(file)} does not count: ${who}`);
    return undefined;
  }
  // It may be a pipe or a device, and reading that could block for ever.
  const text = stat.isFile() ? readShort(file) : '';
  if (text.trim() === ADVICE) {
    const what = `${showPath(file)} advises: this machine may be taken away`;
    return { source: 'file', kind: 'advice', atMs: undefined, what };
  }
  const atMs = instantIn(text.trim(), stat.mtimeMs);
  const what = `${showPath(file)} is there: this machine is taken away${atInstant(atMs)}`;
  return { source: 'file', kind: 'stop', atMs, what };
}

/** Empty if it is longer, or cannot be read. Whatever takes its place meanwhile is not waited for. */
function readShort(file: string): string {
  const { O_RDONLY, O_NONBLOCK, O_NOCTTY } = fs.constants;
  let fd: number | undefined;
  try {
    fd = fs.openSync(encodePath(file), O_RDONLY | O_NONBLOCK | O_NOCTTY);
    const bytes = Buffer.alloc(LARGEST_BYTES + 1);
    const length = fs.fstatSync(fd).isFile() ? fs.readSync(fd, bytes, 0, bytes.length, 0) : 0;
    return length > LARGEST_BYTES ? '' : bytes.toString('utf8', 0, length);
  } catch {
    return '';
  } finally {
    if (fd !== undefined) fs.closeSync(fd);
  }
}

/** `90s` counts from when the file was written; or `2026-01-31T08:22:00Z`. Anything else names no instant. */
function instantIn(text: string, writtenMs: number): number | undefined {
  const ms = parseDurationMs(text);
  if (ms !== undefined) return Math.round(writtenMs) + ms;
  return /^\d{4}-\d\d-\d\dT/.test(text) ? instantMs(text) : undefined;
}
