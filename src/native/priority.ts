// Gives the task precedence, for CPU time and on a disk. On Linux both priorities belong to a thread, and Node has
// started threads before our first line runs: V8's, which collect garbage, and libuv's, which wait for files.
import fs from 'node:fs';
import os from 'node:os';
import { libcFunction } from './libc.ts';

/** setpriority(2): 0 to 19. */
const NICENESS = 10;
/** ioprio_set(2): best effort (2), the lowest of its eight levels. The class below it, idle, could wait forever. */
const IO_PRIORITY = (2 << 13) | 7;
const IOPRIO_WHO_PROCESS = 1;
/** libc has no wrapper: syscall(2). */
const IOPRIO_SET = { x64: 251, arm64: 30 } as Readonly<Partial<Record<string, number>>>;

const syscall =
  libcFunction<[number: number, 'int', which: number, 'int', who: number, 'int', priority: number]>(
    'long syscall(long, ...)',
  );

/** Lowers the priority of all threads of this process. Threads that start later inherit it. */
export function lowerPriority(): void {
  // First the main thread, which starts others.
  lower(process.pid);
  for (const thread of threads()) lower(thread);
}

function threads(): readonly number[] {
  try {
    return fs.readdirSync('/proc/self/task').map(Number);
  } catch {
    return []; // no /proc
  }
}

function lower(thread: number): void {
  try {
    // Never raises our priority: we may have been started with a higher niceness (nice(1)).
    os.setPriority(thread, Math.max(NICENESS, os.getPriority(thread)));
    const number = IOPRIO_SET[process.arch];
    if (number !== undefined) syscall(number, 'int', IOPRIO_WHO_PROCESS, 'int', thread, 'int', IO_PRIORITY);
  } catch {
    // The thread has ended, or a sandbox forbids it: then it competes with the task as an equal.
  }
}
