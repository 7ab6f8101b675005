// How many cores have nothing to do at this moment. A look costs two small files of /proc; nobody looks but who could use
// a core.
import fs from 'node:fs';
import os from 'node:os';

/** Above this share of the last ten seconds in which something waited for a core, none counts as idle. */
const MOST_WAITING_PERCENT = 10;

/** 0 if nobody knows. */
export function idleCores(): number {
  // https://docs.kernel.org/accounting/psi.html: from Linux 4.20 on, and not everywhere.
  const waitingPercent = Number(/^some avg10=([\d.]+)/.exec(read('/proc/pressure/cpu') ?? '')?.[1] ?? 0);
  if (waitingPercent > MOST_WAITING_PERCENT) return 0;
  const cores = os.availableParallelism();
  // proc_loadavg(5), the fourth field: how many threads run or could run now. One of them is the one that looks.
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
