// An open file description (open(2)): what a descriptor refers to, with its offset and its flags.
import type { Dentry, Inode } from './inode.ts';
import type { InotifyInstance } from './inotify.ts';

interface Common {
  /** The number of descriptors that refer to it. */
  references: number;
  /** Called when there is something to read. */
  onReadable?: (() => void) | undefined;
}

export type Description = Common &
  (
    | {
        readonly kind: 'file';
        readonly inode: Inode;
        readonly dentry: Dentry | undefined;
        readonly flags: number;
        position: number;
      }
    | { readonly kind: 'text'; readonly read: () => string }
    | { readonly kind: 'inotify'; readonly inotify: InotifyInstance }
    | { readonly kind: 'epoll'; readonly followed: Set<number>; isReadable: boolean }
    | { readonly kind: 'pidfd'; readonly pid: number }
    | { readonly kind: 'pipe'; readonly readEnd: Description | undefined; isReadable: boolean }
  );

export const O = {
  WRONLY: 1,
  RDWR: 2,
  ACCMODE: 3,
  CREAT: 0o100,
  EXCL: 0o200,
  TRUNC: 0o1000,
  APPEND: 0o2000,
  NONBLOCK: 0o4000,
  DIRECTORY: 0o200000,
  NOFOLLOW: 0o400000,
  PATH: 0o10000000,
  TMPFILE: 0o20000000,
} as const;

export function isWritable(flags: number): boolean {
  return (flags & O.PATH) === 0 && (flags & O.ACCMODE) !== 0;
}
