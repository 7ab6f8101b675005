// How a process ended that is not our child. A zombie says so itself (proc_pid_stat(5), exit_code). Once somebody has
// waited for it, a pidfd that was opened before still knows (pidfd_open(2), PIDFD_GET_INFO of linux/pidfd.h, Linux
// 6.15).
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import type { Ended } from '../model/format/messages.ts';
import { libcFunction } from './libc.ts';
import { endOf } from './wait-status.ts';

/** The same number on every architecture. */
const SYS_PIDFD_OPEN = 434;
/** _IOWR(0xff, 11, struct pidfd_info) with the first version of it, 64 bytes. */
const PIDFD_GET_INFO = 0xc040ff0b;
const INFO_BYTES = 64;
const PIDFD_INFO_EXIT = 1n << 3n;
/** Behind mask, cgroupid, and eleven ids of 4 bytes. */
const EXIT_CODE = 60;

const openPid = libcFunction<[number, 'long', number, 'unsigned int', number]>('long syscall(long, ...)');
const ioctl = libcFunction<[number, number, 'void*', Buffer]>('int ioctl(int, unsigned long, ...)');

export interface Pidfd {
  /** Undefined while the process runs, and where the kernel does not tell. */
  ended(): Ended | undefined;
  close(): void;
}

/** Undefined when the process is gone, or the kernel has no such thing. */
export function openPidfd(pid: number): Pidfd | undefined {
  const fd = openPid(SYS_PIDFD_OPEN, 'long', pid, 'unsigned int', 0);
  if (fd < 0) return undefined;
  return {
    ended: () => {
      // In this order: whoever waits for it meanwhile makes it known to the pidfd.
      const status = zombieStatus(pid) ?? waitedStatus(fd);
      return status === undefined ? undefined : endOf(status);
    },
    close: () => fs.closeSync(fd),
  };
}

function waitedStatus(fd: number): number | undefined {
  const info = Buffer.alloc(INFO_BYTES);
  info.writeBigUInt64LE(PIDFD_INFO_EXIT, 0);
  if (ioctl(fd, PIDFD_GET_INFO, 'void*', info) !== 0) return undefined;
  if ((info.readBigUInt64LE(0) & PIDFD_INFO_EXIT) === 0n) return undefined;
  return info.readInt32LE(EXIT_CODE);
}

/** The last field; to another user's eyes it is always 0. */
function zombieStatus(pid: number): number | undefined {
  try {
    const user = process.getuid?.();
    if (user !== 0 && fs.statSync(`/proc/${pid}`).uid !== user) return undefined;
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? Number(fields.at(-1)) : undefined;
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return undefined;
  }
}
