// How many cores are idle at this moment. Each call reads two small files of /proc: only ask if a core could be used.
import fs from 'node:fs';
import os from 'node:os';

/** If something waited for a core in more than this part of the last ten seconds, no core counts as idle. */
const MOST_WAITING_PERCENT = 10;

/** 0 if unknown. */
export function idleCores(): number {
  // https://docs.kernel.org/accounting/psi.html: from Linux 4.20 on, and not everywhere.
  const waitingPercent = Number(/^some avg10=([\d.]+)/.exec(read('/proc/pressure/cpu') ?? '')?.[1] ?? 0);
  if (waitingPercent > MOST_WAITING_PERCENT) return 0;
  const cores = os.availableParallelism();
  // proc_loadavg(5), the fourth field: the number of threads that run or could run now, with our own.
  const running = Number(/^(?:[\d.]+ ){3}(\d+)\//.exec(read('/proc/loadavg') ?? '')?.[1] ?? cores + 1);
  return Math.max(0, cores - Math.max(0, running - 1));
}

function read(file: string): string | undefined {
  try {
    return fs.readFileSync(file, 'latin1');
  } catch {
    return undefined;
  }
}
