// The first file of the launcher's process. It starts the sidecar, then loads the program of the command line. Most of
// a start is Node's own startup. Here two Node processes start concurrently, so everything that can wait comes later.
// The next import must stay the first: it imports native/bootstrap.ts.
import { loadCompiled } from '../native/compiled.ts';
import { besideUs } from '../native/bootstrap.ts';
import { SIDECAR_VARIABLE } from '../model/format/shared-sidecar.ts';
import { needEntry, type StartedSidecar, startSidecar } from '../launch/sidecar-start.ts';
import type { main } from './main.ts';

const sidecar = asksForRun(process.argv.slice(2)) ? startSidecarEarly() : undefined;
void loadCompiled<typeof main>('capture-program')(sidecar);

/** Whether the arguments look like those of a run. If not, the sidecar is started for nothing. */
function asksForRun(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  // A runner has started one sidecar for all its tasks.
  if (process.env[SIDECAR_VARIABLE] !== undefined) return false;
  const [first = '', second = ''] = argv;
  // The task may be in a job file.
  const hasTask = end > 0 || (first === 'run' && /\.ya?ml$/i.test(second));
  const ours = end === -1 ? argv : argv.slice(0, end);
  return hasTask && (first === 'run' || first.startsWith('-')) && !ours.some(startsNothing);
}

function startsNothing(word: string): boolean {
  return ['-h', '--help', '-V', '--version', '--dry-run'].includes(word);
}

function startSidecarEarly(): StartedSidecar | undefined {
  try {
    const entry = besideUs('sidecar.cjs');
    needEntry(entry);
    return startSidecar(entry);
  } catch {
    return undefined; // tried again later, where a failure is reported
  }
}
