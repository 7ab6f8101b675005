// The first file of the launcher's process: starts the sidecar, then loads the program of the command line. Node takes most
// of the time of a start to begin, and here two of them begin at once: so this comes before all that can wait.
// First: it takes V8's flags back, and only after that modules of Node are cheap to load.
import { besideUs, loadProgram } from '../native/program.ts';
import { SIDECAR_VARIABLE } from '../model/format/shared-sidecar.ts';
import { type StartedSidecar, startSidecar } from '../launch/sidecar-start.ts';
import type { runAndExit } from './main.ts';

const sidecar = asksForRun(process.argv.slice(2)) ? startSidecarEarly() : undefined;
const program = loadProgram('capture') as { readonly runAndExit: typeof runAndExit };
void program.runAndExit(sidecar);

/** Whether the arguments look like those of a run. If they are wrong, a sidecar was started for nothing. */
function asksForRun(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  // A runner has started one for all its tasks.
  if (process.env[SIDECAR_VARIABLE] !== undefined) return false;
  const [first = '', second = ''] = argv;
  // The task may stand in a job file.
  const hasTask = end > 0 || (first === 'run' && /\.ya?ml$/i.test(second));
  const ours = end === -1 ? argv : argv.slice(0, end);
  return hasTask && (first === 'run' || first.startsWith('-')) && !ours.some(startsNothing);
}

function startsNothing(word: string): boolean {
  return ['-h', '--help', '-V', '--version', '--dry-run'].includes(word);
}

function startSidecarEarly(): StartedSidecar | undefined {
  try {
    return startSidecar(besideUs('sidecar.cjs'));
  } catch {
    return undefined; // tried again where a failure has its message
  }
}
