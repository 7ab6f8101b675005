// The program of the commands that accompany a task (cli/first.ts loads it).
import type { StartedSidecar } from '../launch/sidecar-start.ts';
import { statusOf } from './program.ts';
import { restoreCommand, runCommand, watchCommand } from './run.ts';

/** `startedSidecar` is set if the arguments looked like those of a run. */
export async function main(startedSidecar: StartedSidecar | undefined): Promise<never> {
  const status = await statusOf([runCommand(startedSidecar), watchCommand, restoreCommand]);
  // After a mistake the sidecar is not needed. After a run it has already exited.
  startedSidecar?.child.kill('SIGKILL');
  process.exit(status);
}
