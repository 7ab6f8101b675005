// Which files a process has open for writing, from proc_pid_fd(5) and proc_pid_fdinfo(5). None if the process is gone,
// or is another user's.
import fs from 'node:fs';
import { readProc } from './processes.ts';

const O_ACCMODE = 0o3;

export interface WritableDescriptor {
  /** Below /proc: leads to the file itself, even if the file has no name any more. */
  readonly link: string;
  /** O_APPEND: every write goes to the end of the file. */
  readonly appends: boolean;
  /** The offset of the next write(2), bytes. */
  readonly position: number;
}

export function writableDescriptors(pid: number): readonly WritableDescriptor[] {
  return descriptorNumbers(pid).flatMap((fd) => {
    const info = readProc(pid, `fdinfo/${fd}`) ?? '';
    const flags = Number.parseInt(/^flags:\s*([0-7]+)/m.exec(info)?.[1] ?? '', 8);
    if (Number.isNaN(flags) || (flags & O_ACCMODE) === fs.constants.O_RDONLY) return [];
    const position = Number(/^pos:\s*(\d+)/m.exec(info)?.[1] ?? 0);
    return [{ link: `/proc/${pid}/fd/${fd}`, appends: (flags & fs.constants.O_APPEND) !== 0, position }];
  });
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

function descriptorNumbers(pid: number): readonly string[] {
  try {
    return fs.readdirSync(`/proc/${pid}/fd`);
  } catch {
    return []; // gone, or another user's
  }
}
