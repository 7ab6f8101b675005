// `--exit-file`: how `capture watch` learns that the task of another container has ended, and with what status. The
// task's side writes its exit status as decimal text, in place or by rename. Never follows a link, opens only a regular
// file, and never reads more bytes than a status can have. A file that another user could have made is none.
import fs from 'node:fs';
import path from 'node:path';
import { CaptureError, errnoOf, reasonOf } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { encodePath, showPath } from '../../model/path.ts';
import { newDeferred } from '../../model/waiting.ts';
import { clockMs, fromTimeOfDay } from '../../native/clock.ts';
import { isStrangers } from '../../native/users.ts';

/** `255` with blanks around it and a line end. */
const LIMIT_BYTES = 16;
/** Text without a line end may be incomplete. It counts as complete once it has been unchanged for this long. */
const SETTLED_MS = 500;
/** The interval of looks in case the kernel reports nothing (no inotify instance is left, the directory was moved). */
const LOOK_AGAIN_MS = 5000;

export interface TaskStatus {
  /** 0 to 255; 64 if the file holds no status. */
  readonly code: number;
  /** Why the file holds no status. */
  readonly reason: string | undefined;
  /**
   * When the task ended, ms since the epoch: when the file was written, and not when we found it. Closes until then may
   * come from a dying process. Never later than now, whatever clock the file system has.
   */
  readonly atMs: number;
}

export interface ExitFile {
  /** Resolves when the file says how the task ended; never rejects. */
  readonly said: Promise<{ readonly status: TaskStatus }>;
  /** Looks at once: true if the file says it already. */
  look(): boolean;
  /** True if the file exists, although it may be incomplete. */
  isThere(): boolean;
  close(): void;
}

/** `warn` hears of a stranger's file, once. Throws status 64 if the directory of the file does not exist. */
export function openExitFile(file: string, warn: (message: string, hint: string) => void): ExitFile {
  const dir = path.dirname(file);
  if (!fs.statSync(encodePath(dir), { throwIfNoEntry: false })?.isDirectory()) {
    throw new CaptureError(EXIT.usage, `cannot wait for ${showPath(file)} (--exit-file): no such directory`, {
      hint: `mount the volume that both containers share, or mkdir -p ${showPath(dir)}`,
    });
  }
  const said = newDeferred<{ status: TaskStatus }>();
  let isSaid = false;
  let before: string | undefined;
  let settling: NodeJS.Timeout | undefined;
  const readOurs = newReader(file, warn);
  const look = (): void => {
    const read = isSaid ? undefined : readOurs();
    if (read === undefined || read.text === '') return;
    const { text } = read;
    if (text.endsWith('\n') || (text === before && settling === undefined)) {
      close();
      isSaid = true;
      said.resolve({
        status: { ...parse(file, text), atMs: Math.min(clockMs(), fromTimeOfDay(read.writtenMs)) },
      });
      return;
    }
    before = text;
    clearTimeout(settling);
    settling = setTimeout(() => {
      settling = undefined;
      look();
    }, SETTLED_MS);
  };
  const again = setInterval(look, LOOK_AGAIN_MS);
  const watcher = watchDirectory(dir, (name) => {
    if (name === null || name === path.basename(file)) look();
  });
  const close = (): void => {
    clearInterval(again);
    clearTimeout(settling);
    watcher?.close();
  };
  look();
  return {
    said: said.promise,
    close,
    isThere: () => (readOurs()?.text ?? '') !== '',
    look: () => {
      look();
      return isSaid;
    },
  };
}

/** Reads the file, unless it is a stranger's. */
function newReader(file: string, warn: (message: string, hint: string) => void): () => Written | undefined {
  let isSaid = false;
  return () => {
    const read = readText(file);
    if (read === undefined || 'text' in read) return read;
    if (!isSaid) {
      const who = `user ${read.strangerUid} has made it, in a directory for all users`;
      warn(
        `${showPath(file)} (--exit-file) does not count: ${who}`,
        'name a file in a directory of your own',
      );
    }
    isSaid = true;
    return undefined;
  };
}

function watchDirectory(dir: string, onChange: (name: string | null) => void): fs.FSWatcher | undefined {
  try {
    const watcher = fs.watch(encodePath(dir), (_, name) => onChange(name));
    watcher.on('error', () => watcher.close());
    return watcher;
  } catch {
    return undefined;
  }
}

interface Written {
  readonly text: string;
  readonly writtenMs: number;
}

/**
 * Undefined while there is nothing to read. For a file that cannot be a status file it returns text that is no status.
 */
function readText(file: string): Written | { readonly strangerUid: number } | undefined {
  const bytes = Buffer.alloc(LIMIT_BYTES + 1);
  let fd: number;
  try {
    // Opening a FIFO would wake its writer (fifo(7)), so only a regular file is opened.
    const stat = fs.lstatSync(encodePath(file), { throwIfNoEntry: false });
    if (stat === undefined) return undefined;
    if (isStrangers(file, stat.uid)) return { strangerUid: stat.uid };
    if (!stat.isFile()) return noStatus('no regular file');
    fd = fs.openSync(
      encodePath(file),
      fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK,
    );
  } catch (error) {
    // The file was renamed at this moment.
    return errnoOf(error) === 'ENOENT' ? undefined : noStatus(reasonOf(error));
  }
  try {
    const writtenMs = fs.fstatSync(fd).mtimeMs;
    return { text: bytes.toString('latin1', 0, fs.readSync(fd, bytes, 0, bytes.length, 0)), writtenMs };
  } catch (error) {
    return noStatus(reasonOf(error));
  } finally {
    fs.closeSync(fd);
  }
}

function noStatus(why: string): Written {
  return { text: `${why}\n`, writtenMs: Infinity };
}

function parse(file: string, text: string): Omit<TaskStatus, 'atMs'> {
  const word = text.trim();
  const code = /^\d{1,3}$/.test(word) && text.length <= LIMIT_BYTES ? Number(word) : undefined;
  if (code !== undefined && code <= 255) return { code, reason: undefined };
  const what = text.length > LIMIT_BYTES ? `${word}...` : word;
  return {
    code: EXIT.usage,
    reason: `${showPath(file)} (--exit-file) holds no exit status of 0 to 255: '${showPath(what)}'`,
  };
}
