// Which files a process has open for writing, as proc_pid_fd(5) and proc_pid_fdinfo(5) tell it. Nothing is known of a
// process that is gone, or is another user's.
import fs from 'node:fs';
import { readProc } from './processes.ts';

const O_ACCMODE = 0o3;

export interface WritableDescriptor {
  /** Below /proc: leads to the file itself, also when it has no name any more. */
  readonly link: string;
  /** O_APPEND: every write goes to the end of the file. */
  readonly appends: boolean;
  /** Where the next write without a place of its own goes, bytes. */
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

/** Where the next byte goes that this process writes to its open file `fd`: with O_APPEND to the end. */
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
    return []; // gone, or another user's: then it cannot be judged
  }
}
