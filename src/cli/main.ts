// The program of the commands that work beside a task (cli/first.ts loads it).
import type { StartedSidecar } from '../launch/sidecar-start.ts';
import { statusOf } from './program.ts';
import { restoreCommand, runCommand, watchCommand } from './run.ts';

/** `startedSidecar`: if the arguments looked like those of a run. */
export async function runAndExit(startedSidecar: StartedSidecar | undefined): Promise<never> {
  const status = await statusOf([runCommand(startedSidecar), watchCommand, restoreCommand]);
  // After a mistake nobody needs it; after a run it is gone.
  startedSidecar?.child.kill('SIGKILL');
  process.exit(status);
}
