// How a process ended, as the kernel says: for a child by its wait status, for any other process from /proc or a pidfd.
// Node reports a signal that it has no name for (34 to 64) like exit 0: a task that died half-way through a file would
// be taken for one that has done its work. Never waits for any child (waitpid of -1): that would take exit statuses
// that others wait for.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import type { Ended, Usage } from '../model/format/messages.ts';
import { LONGEST_MS } from './clock.ts';
import { libcFunction } from './libc.ts';
import { readStat } from './processes.ts';

const wait4 = libcFunction<[pid: number, status: Buffer, options: number, usage: Buffer]>(
  'int wait4(int, void*, int, void*)',
);
const WNOHANG = 1;
/** struct rusage on 64 bits: two struct timeval, then fourteen numbers, the first of them ru_maxrss. */
const RUSAGE_BYTES = 144;
const MAXRSS = 32;

/** How a child ended, and what it and the children that it waited for have used. */
export interface Reaped {
  readonly ended: Ended;
  readonly usage: Usage;
}

/**
 * Resolves when the child has ended; rejects if it could not be started. Call it in the turn of the event loop that
 * spawned the child: later, libuv would take the exit status. The child's event 'exit' never comes.
 */
export async function endOfChild(child: ChildProcess): Promise<Ended> {
  return (await reapedChild(child)).ended;
}

/** The same with the usage, which is undefined if only Node knows how the child ended. */
export async function reapedChild(
  child: ChildProcess,
): Promise<Pick<Reaped, 'ended'> & Partial<Pick<Reaped, 'usage'>>> {
  const { pid } = child;
  // Once the handle is closed, libuv does not wait for this pid at a SIGCHLD. Node has no public way to it.
  const { _handle: handle } = child as { _handle?: { close?(): void } };
  if (pid === undefined || handle?.close === undefined) return { ended: await saidByNode(child) };
  handle.close();
  return new Promise((resolve) => {
    // Signal listeners do not keep the event loop alive, and the handle that did is closed.
    const alive = setInterval(() => undefined, LONGEST_MS);
    const reap = (): void => {
      const reaped = reapChild(pid);
      if (reaped === undefined) return;
      clearInterval(alive);
      process.removeListener('SIGCHLD', reap);
      resolve(reaped);
    };
    process.on('SIGCHLD', reap);
    reap(); // It may have ended before there was a listener.
  });
}

/** Takes the exit status of a child that has ended (wait4(2), WNOHANG); undefined while it runs or is stopped. */
export function reapChild(pid: number): Reaped | undefined {
  const status = Buffer.alloc(4);
  const usage = Buffer.alloc(RUSAGE_BYTES);
  if (wait4(pid, status, WNOHANG, usage) !== pid) return undefined;
  const seconds = (at: number): number =>
    Number(usage.readBigInt64LE(at)) + Number(usage.readBigInt64LE(at + 8)) / 1e6;
  return {
    ended: endOf(status.readInt32LE(0)),
    usage: { cpuS: seconds(0) + seconds(16), maxRssBytes: Number(usage.readBigInt64LE(MAXRSS)) * 1024 },
  };
}

async function saidByNode(child: ChildProcess): Promise<Ended> {
  const [code, signal] = (await once(child, 'exit')) as [number, null] | [null, string];
  return signal === null ? { code, signal: undefined } : { code: undefined, signal };
}

/** Signals by name. Node knows no real-time signals (signal(7)), which are `SIG34` to `SIG64` here. */
const NUMBERS: ReadonlyMap<string, number> = new Map(Object.entries(os.constants.signals));
/** If a number has two names (SIGABRT, SIGIOT), the first one, as in Node. */
const NAMES: ReadonlyMap<number, string> = new Map(
  [...NUMBERS].toReversed().map(([name, number]) => [number, name]),
);

/** Decodes the wait status of a process that has ended, not of one that was stopped. */
export function endOf(status: number): Ended {
  const signalNumber = status & 0x7f;
  return signalNumber === 0
    ? { code: (status >> 8) & 0xff, signal: undefined }
    : { code: undefined, signal: nameOfSignal(signalNumber) };
}

/** @throws Error if there is no such signal: no end may be taken for another one. */
export function numberOfSignal(name: string): number {
  const number = NUMBERS.get(name) ?? Number(/^SIG(\d+)$/.exec(name)?.[1]);
  if (Number.isNaN(number)) throw new Error(`${name} is no signal`);
  return number;
}

function nameOfSignal(number: number): string {
  return NAMES.get(number) ?? `SIG${number}`;
}

/** The same number on every architecture. */
const SYS_PIDFD_OPEN = 434;
/** _IOWR(0xff, 11, struct pidfd_info), with the first version of the struct: 64 bytes. */
const PIDFD_GET_INFO = 0xc040ff0b;
const INFO_BYTES = 64;
const PIDFD_INFO_EXIT = 1n << 3n;
/** The offset behind mask, cgroupid and eleven ids of 4 bytes. */
const EXIT_CODE = 60;

const openPid = libcFunction<[number, 'long', number, 'unsigned int', number]>('long syscall(long, ...)');
const ioctl = libcFunction<[number, number, 'void*', Buffer]>('int ioctl(int, unsigned long, ...)');

/**
 * How a process that is not our child ended. A zombie shows it (proc_pid_stat(5), exit_code). Once its parent has
 * waited for it, only a pidfd that was opened before still knows (pidfd_open(2), PIDFD_GET_INFO, Linux 6.15).
 */
export interface Pidfd {
  /** Undefined while the process runs, and if the kernel does not know. */
  ended(): Ended | undefined;
  close(): void;
}

/** Undefined if the process is gone, or the kernel has no pidfd. */
export function openPidfd(pid: number): Pidfd | undefined {
  const fd = pidDescriptor(pid);
  if (fd === undefined) return undefined;
  return {
    ended: () => {
      // In this order: if the parent waits for it in between, the pidfd knows.
      const status = zombieStatus(pid) ?? waitedStatus(fd);
      return status === undefined ? undefined : endOf(status);
    },
    close: () => fs.closeSync(fd),
  };
}

/** A pidfd, closed on exec; undefined if the process is gone, or the kernel has none (pidfd_open(2)). */
export function pidDescriptor(pid: number): number | undefined {
  const fd = openPid(SYS_PIDFD_OPEN, 'long', pid, 'unsigned int', 0);
  return fd < 0 ? undefined : fd;
}

function waitedStatus(fd: number): number | undefined {
  const info = Buffer.alloc(INFO_BYTES);
  info.writeBigUInt64LE(PIDFD_INFO_EXIT, 0);
  if (ioctl(fd, PIDFD_GET_INFO, 'void*', info) !== 0) return undefined;
  if ((info.readBigUInt64LE(0) & PIDFD_INFO_EXIT) === 0n) return undefined;
  return info.readInt32LE(EXIT_CODE);
}

/** The kernel shows other users a status of 0. */
function zombieStatus(pid: number): number | undefined {
  const user = process.getuid?.();
  if (user !== 0 && fs.statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid !== user) return undefined;
  const stat = readStat(pid);
  return stat?.state === 'Z' ? stat.waitStatus : undefined;
}
