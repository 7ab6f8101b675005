// `--exit-file`: how `capture watch` learns that the task of another container has ended, and with what status. The
// task's side writes its exit status as decimal text, in place or by rename. Never follows a link, opens only a
// regular file, and never reads more than a status is long.
import fs from 'node:fs';
import path from 'node:path';
import { CaptureError, errnoOf, reasonOf } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { encodePath, showPath } from '../../model/path.ts';
import { newDeferred } from '../../model/waiting.ts';
import { clockMs, fromTimeOfDay } from '../../native/clock.ts';
import { isOursOrRoots } from '../../native/users.ts';

/** `255`, blanks around it and the end of the line. */
const LIMIT_BYTES = 16;
/** S_ISVTX of inode(7). */
const STICKY = 0o1000;
/** Text without a line end may be incomplete; it counts as complete once it has stood this long. */
const SETTLED_MS = 500;
/** If the kernel reports nothing (no inotify instance is left, the directory was moved), we look again. */
const LOOK_AGAIN_MS = 5000;

export interface TaskStatus {
  /** 0 to 255; 64 if the file holds no status. */
  readonly code: number;
  /** Why the file holds no status. */
  readonly reason: string | undefined;
  /**
   * When the task ended, ms since the epoch: as the file was written, and not as we found it. What closed until then
   * may be a death's. Never later than now, whatever clock the file system has.
   */
  readonly atMs: number;
}

export interface ExitFile {
  /** Resolves when the file says how the task ended; never rejects. */
  readonly said: Promise<{ readonly status: TaskStatus }>;
  /** Looks at once: true if the file says it already. */
  look(): boolean;
  /** True if something stands there, although it may not be all of it. */
  isThere(): boolean;
  close(): void;
}

/** Throws status 64 if the directory of the file does not exist. */
export function openExitFile(file: string): ExitFile {
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
  const look = (): void => {
    const read = isSaid ? undefined : readText(file);
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
    isThere: () => (readText(file)?.text ?? '') !== '',
    look: () => {
      look();
      return isSaid;
    },
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

/** Undefined while there is nothing to read. What cannot be a status file reads as text that is no status. */
function readText(file: string): Written | undefined {
  const bytes = Buffer.alloc(LIMIT_BYTES + 1);
  let fd: number;
  try {
    // Opening a FIFO would wake its writer (fifo(7)), so only a regular file is opened.
    const stat = fs.lstatSync(encodePath(file), { throwIfNoEntry: false });
    if (stat === undefined) return undefined;
    if (!stat.isFile()) return noStatus('no regular file');
    if (isStrangers(file, stat)) return noStatus(`a file of user ${stat.uid}`);
    fd = fs.openSync(
      encodePath(file),
      fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK,
    );
  } catch (error) {
    // It was renamed at this moment.
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

/** Where everybody may put names, as in /tmp, one of somebody else says nothing: fs.protected_regular of proc_sys_fs(5). */
function isStrangers(file: string, { uid }: fs.Stats): boolean {
  const dir = fs.statSync(encodePath(path.dirname(file)));
  return (dir.mode & STICKY) !== 0 && uid !== dir.uid && !isOursOrRoots(uid);
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
