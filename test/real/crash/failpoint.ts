// Stands in the place of src/native/failpoint.ts in the program that the crash tests build: at the n-th time
// that it comes to the failpoint named by CRASH_AT, the program is killed. At most once for each CRASH_MARK.
import fs from 'node:fs';

const [wanted = '', nth = '1', victim = ''] = (process.env['CRASH_AT'] ?? '').split(':');
let left = Number(nth);

/** The program has come to this instant. */
export function reached(instant: string): void {
  if (instant !== wanted) return;
  left -= 1;
  if (left !== 0 || !isFirst()) return;
  // The launcher goes first: what is written here is that the machine is gone, not that a process died.
  if (victim === 'all') process.kill(process.ppid, 'SIGKILL');
  process.kill(process.pid, 'SIGKILL');
  // A signal to ourselves arrives when the call returns; other threads die with it. Nothing may come after.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

/** The sidecar that replaces a dead one must not die of the same. */
function isFirst(): boolean {
  try {
    fs.writeFileSync(process.env['CRASH_MARK'] ?? '', '', { flag: 'wx' });
    return true;
  } catch {
    return false;
  }
}
