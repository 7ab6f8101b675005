// Which files a process has open for writing, or mapped so, from proc_pid_fd(5), proc_pid_fdinfo(5) and proc_pid_maps(5).
// Never takes a process that it may not look into for one that has no file open, and never waits for a file system that
// is not of the work directory.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import { decodePath } from '../model/path.ts';
import type { FileSystems } from './mounts.ts';
import { readProc } from './processes.ts';

const O_ACCMODE = 0o3;

export interface WritableDescriptor {
  /** Below /proc: leads to the file itself, even if the file has no name any more. */
  readonly link: string;
  /** O_APPEND: every write goes to the end of the file. */
  readonly appends: boolean;
  /** The offset of the next write(2), bytes. */
  readonly position: number;
  /** What proc_pid_fdinfo(5) says, for {@link FileSystems.have}. */
  readonly info: string;
}

/** None if the process is gone, or is hidden from us. */
export function writableDescriptors(pid: number): readonly WritableDescriptor[] {
  return descriptorNumbers(pid).flatMap((fd) => {
    const info = readProc(pid, `fdinfo/${fd}`) ?? '';
    const flags = Number.parseInt(/^flags:\s*([0-7]+)/m.exec(info)?.[1] ?? '', 8);
    if (Number.isNaN(flags) || (flags & O_ACCMODE) === fs.constants.O_RDONLY) return [];
    const position = Number(/^pos:\s*(\d+)/m.exec(info)?.[1] ?? 0);
    return [
      { link: `/proc/${pid}/fd/${fd}`, appends: (flags & fs.constants.O_APPEND) !== 0, position, info },
    ];
  });
}

/** A regular file with a name. The kernel tells the name under which the process has opened it. */
export interface WritableFile {
  readonly path: string;
  readonly inode: bigint;
}

/**
 * Those on these file systems. Undefined if we may not look into the process: another user's, or not dumpable (prctl(2),
 * PR_SET_DUMPABLE); or if it cannot be told where one of its descriptors leads.
 */
export function writableFiles(pid: number, near: FileSystems): readonly WritableFile[] | undefined {
  if (!mayLookInto(pid)) return undefined;
  const open: WritableFile[] = [];
  for (const { link, info } of writableDescriptors(pid)) {
    const path = pathOf(link);
    const isNear = path === undefined ? false : near.have(pid, info);
    if (isNear === undefined) return undefined;
    if (path !== undefined && isNear) open.push(...openFile(link, path));
  }
  const mapped = [...(readProc(pid, 'maps') ?? '').matchAll(/^\S+ .w.s (?:\S+ +){2}(\d+) +(\/.*)$/gm)].map(
    ([, inode = '', path = '']) => ({
      path: decodePath(Buffer.from(path, 'latin1')),
      inode: BigInt(inode),
    }),
  );
  return [...open, ...mapped];
}

/** Undefined if it leads to no file with a name, or is closed. */
function pathOf(link: string): string | undefined {
  try {
    const path = decodePath(fs.readlinkSync(link, { encoding: 'buffer' }));
    return path.startsWith('/') && !path.endsWith(' (deleted)') ? path : undefined;
  } catch {
    return undefined;
  }
}

function openFile(link: string, path: string): readonly WritableFile[] {
  try {
    const stat = fs.statSync(link, { bigint: true });
    return stat.isFile() ? [{ path, inode: stat.ino }] : [];
  } catch {
    return []; // closed since
  }
}

/** The offset of the next byte that this process writes to its descriptor `fd`: with O_APPEND, the end of the file. */
export function nextByteOf(pid: number, fd: number): number {
  const link = `/proc/${pid}/fd/${fd}`;
  const found = writableDescriptors(pid).find((descriptor) => descriptor.link === link);
  if (found !== undefined && !found.appends) return found.position;
  try {
    return fs.statSync(link).size;
  } catch {
    return 0; // closed
  }
}

/** As the kernel decides for all of these files (ptrace(2), access mode checking). True if the process is gone. */
function mayLookInto(pid: number): boolean {
  try {
    fs.readlinkSync(`/proc/${pid}/cwd`);
    return true;
  } catch (error) {
    const code = errnoOf(error);
    return code !== 'EACCES' && code !== 'EPERM';
  }
}

function descriptorNumbers(pid: number): readonly string[] {
  try {
    return fs.readdirSync(`/proc/${pid}/fd`);
  } catch {
    return []; // gone, or hidden
  }
}
