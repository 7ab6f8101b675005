// --on-end: the last command, such as `shutdown -h now` on a machine that is paid for by the hour.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Log } from '../log/log.ts';
import { reasonOf } from '../model/errors.ts';
import type { ExitStatus } from '../model/exit-status.ts';

/** Runs the shell command with `env` and our exit status in CAPTURED_STATUS. Logs a warning if it fails. */
export async function runOnEnd(
  command: string | undefined,
  status: ExitStatus,
  { env, log }: { readonly env: NodeJS.ProcessEnv; readonly log: Log },
): Promise<void> {
  if (command === undefined) return;
  const why = await whyNotRun(command, { ...env, CAPTURED_STATUS: String(status) });
  if (why !== undefined) log.warn(`--on-end did not work: ${why}`);
}

async function whyNotRun(command: string, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  try {
    const child = spawn('/bin/sh', ['-c', command], { stdio: 'inherit', env });
    const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
    return code === 0 ? undefined : `it ended with ${signal ?? `exit status ${code}`}`;
  } catch (error) {
    return reasonOf(error);
  }
}
