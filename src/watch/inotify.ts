// The first step of the flow: inotify(7) as libc offers it, and the bytes that it answers with. Nothing here
// knows paths or decides anything; every number is the kernel's.
import { decodePath, pathBytes } from '../model/path.ts';
import { lastErrno, libcFunction, systemError } from '../native/libc.ts';

export const IN = {
  closeWrite: 0x8,
  movedFrom: 0x40,
  movedTo: 0x80,
  create: 0x100,
  queueOverflow: 0x4000,
  ignored: 0x8000,
  onlyDir: 0x1000000,
  dontFollow: 0x2000000,
  isDir: 0x40000000,
} as const;

/**
 * What each directory is watched for. IN_EXCL_UNLINK must stay out: with it the close of a file that was
 * opened with O_TMPFILE and linked in later is not reported.
 */
export const DIRECTORY_MASK =
  IN.closeWrite | IN.movedFrom | IN.movedTo | IN.create | IN.onlyDir | IN.dontFollow;

/** The system calls of the watcher. Those that fail throw as node:fs does; a test may put in its own. */
export interface InotifyCalls {
  /** A new inotify instance, non-blocking (inotify_init1(2)); EMFILE: `max_user_instances` is used up. */
  open(): number;
  /** Watches `path` and returns the watch descriptor; ENOSPC: `max_user_watches` is used up. */
  add(fd: number, path: string, mask: number): number;
  /** Never throws: the kernel may have dropped the watch already. */
  remove(fd: number, watch: number): void;
  /** Bytes read; 0 when nothing is queued. */
  read(fd: number, bytes: Buffer): number;
  /** Bytes that are queued now (FIONREAD). */
  queuedBytes(fd: number): number;
  /** Both ends non-blocking, closed on exec: [read end, write end]. */
  pipe(): readonly [number, number];
  /** Makes `to` another name of the open file `from` (dup3(2)). */
  replace(from: number, to: number): void;
  close(fd: number): void;
}

const initialize = libcFunction<[flags: number]>('int inotify_init1(int)');
const addWatch = libcFunction<[number, Buffer, number]>('int inotify_add_watch(int, const void*, uint32_t)');
const removeWatch = libcFunction<[number, number]>('int inotify_rm_watch(int, int)');
const readBytes = libcFunction<[number, Buffer, number]>('long read(int, void*, size_t)');
const ioctl = libcFunction<[number, number, 'void*', Buffer]>('int ioctl(int, unsigned long, ...)');
const pipe2 = libcFunction<[Buffer, number]>('int pipe2(void*, int)');
const dup3 = libcFunction<[number, number, number]>('int dup3(int, int, int)');
const closeFd = libcFunction<[number]>('int close(int)');

const O_NONBLOCK = 0o4000;
const O_CLOEXEC = 0o2000000;
/** asm-generic/ioctls.h; only powerpc has its own. */
const FIONREAD = process.arch === 'ppc64' ? 0x4004667f : 0x541b;

export const libcInotify: InotifyCalls = {
  open: () => checked('inotify_init1', initialize(O_NONBLOCK | O_CLOEXEC)),
  add: (fd, path, mask) => {
    const name = Buffer.concat([pathBytes(path), Buffer.of(0)]);
    return checked('inotify_add_watch', addWatch(fd, name, mask), path);
  },
  remove: (fd, watch) => void removeWatch(fd, watch),
  read: (fd, bytes) => {
    const length = readBytes(fd, bytes, bytes.length);
    if (length >= 0) return length;
    const code = lastErrno();
    if (code === 'EAGAIN') return 0;
    throw systemError('read', code);
  },
  queuedBytes: (fd) => {
    const answer = new Int32Array(1);
    checked('ioctl', ioctl(fd, FIONREAD, 'void*', Buffer.from(answer.buffer)));
    return answer[0] ?? 0;
  },
  pipe: () => {
    const ends = new Int32Array(2);
    checked('pipe2', pipe2(Buffer.from(ends.buffer), O_NONBLOCK | O_CLOEXEC));
    return [ends[0] ?? -1, ends[1] ?? -1];
  },
  replace: (from, to) => void checked('dup3', dup3(from, to, O_CLOEXEC)),
  close: (fd) => void closeFd(fd),
};

function checked(call: string, answer: number, path?: string): number {
  if (answer >= 0) return answer;
  throw systemError(call, lastErrno(), path);
}

/** `cookie` ties a MOVED_FROM to its MOVED_TO; `name` is '' for an event of the watched directory itself. */
export type OnKernelEvent = (watch: number, mask: number, cookie: number, name: string) => void;

/** struct inotify_event without its name. */
const HEADER_BYTES = 16;

/**
 * Reads the events in the first `length` bytes. The buffer must start at a multiple of 4; the kernel pads
 * each event to one of 16, so that the header fields can be read as words of the machine's own byte order.
 */
export function parseEvents(bytes: Buffer, length: number, onEvent: OnKernelEvent): void {
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, length >> 2);
  let at = 0;
  while (at + HEADER_BYTES <= length) {
    const word = at >> 2;
    const nameAt = at + HEADER_BYTES;
    const next = nameAt + (words[word + 3] ?? 0);
    onEvent((words[word] ?? 0) | 0, words[word + 1] ?? 0, words[word + 2] ?? 0, nameOf(bytes, nameAt, next));
    at = next;
  }
}

/** The name ends at the first NUL. ASCII, nearly every name, is taken without a look at UTF-8. */
function nameOf(bytes: Buffer, start: number, limit: number): string {
  let end = start;
  let seen = 0;
  while (end < limit) {
    const byte = bytes[end] ?? 0;
    if (byte === 0) break;
    seen |= byte;
    end += 1;
  }
  if (end === start) return '';
  return seen < 0x80 ? bytes.toString('latin1', start, end) : decodePath(bytes.subarray(start, end));
}
