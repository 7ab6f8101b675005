// --on-end: the last act, such as `shutdown -h now` on a machine that is paid for by the hour.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { reasonOf } from '../model/errors.ts';
import type { ExitStatus } from '../model/exit-status.ts';

/** Runs the shell command, which finds our exit status in CAPTURED_STATUS beside `given`. Undefined if it worked, else why not. */
export async function runOnEnd(
  command: string,
  status: ExitStatus,
  given: NodeJS.ProcessEnv,
): Promise<string | undefined> {
  try {
    const child = spawn('/bin/sh', ['-c', command], {
      stdio: 'inherit',
      env: { ...given, CAPTURED_STATUS: String(status) },
    });
    const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
    return code === 0 ? undefined : `it ended with ${signal ?? `exit status ${code}`}`;
  } catch (error) {
    return reasonOf(error);
  }
}
