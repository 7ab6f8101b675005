// Stands in the place of src/native/failpoint.ts in the program that the crash tests build: at the n-th time
// that it comes to the failpoint named in CRASH_AT, the program is killed. CRASH_AT names several deaths, one
// after the other, each at most once: CRASH_MARK with its number is there when it has taken place.
import fs from 'node:fs';

interface Planned {
  readonly at: string;
  readonly victim: string;
  readonly mark: string;
  left: number;
}

const { CRASH_AT = '', CRASH_MARK = '' } = process.env;
const planned = CRASH_AT.split(',').map((death, n): Planned => {
  const [at = '', nth = '1', victim = ''] = death.split(':');
  return { at, victim, mark: `${CRASH_MARK}-${n}`, left: Number(nth) };
});

/** The program has come to this instant. */
export function reached(instant: string): void {
  if (!planned.some(({ at }) => at === instant)) return;
  const death = planned.find(({ mark }) => !fs.existsSync(mark));
  if (death?.at !== instant) return;
  death.left -= 1;
  if (death.left !== 0 || !isFirst(death)) return;
  // The launcher goes first: what is written here is that the machine is gone, not that a process died.
  if (death.victim === 'all') process.kill(process.ppid, 'SIGKILL');
  process.kill(process.pid, 'SIGKILL');
  // A signal to ourselves arrives when the call returns; other threads die with it. Nothing may come after.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

/** A worker thread may come there at the same time. */
function isFirst({ mark }: Planned): boolean {
  try {
    fs.writeFileSync(mark, '', { flag: 'wx' });
    return true;
  } catch {
    return false;
  }
}
