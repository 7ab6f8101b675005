// Who sent SIGTERM, as far as the launcher knows: what its runner has left for it. The sidecar asks Slurm. The cause is for
// people, and changes nothing.
import path from 'node:path';
import { RUNNER_VARIABLE, STOP_FILE_ENDING, TASK_LOG_VARIABLE } from '../model/format/shared-sidecar.ts';
import { parseStopCause, type StopCause, unknownSender } from '../model/format/stop-cause.ts';
import { readPrivateFile } from '../native/private-dir.ts';

/** Claims nothing that is not known. */
export function senderOfTerm(env: NodeJS.ProcessEnv): StopCause {
  const { [RUNNER_VARIABLE]: runner, [TASK_LOG_VARIABLE]: log } = env;
  if (runner !== undefined && process.ppid !== Number(runner))
    return { why: 'runner killed', reason: 'capture array or capture worker was killed' };
  const left =
    runner === undefined || log === undefined
      ? undefined
      : readPrivateFile(path.dirname(log), path.basename(log) + STOP_FILE_ENDING);
  return (left === undefined ? undefined : parseStopCause(left)) ?? unknownSender('SIGTERM');
}
