// Finds the task's program before anything is started or written, so that a mistyped name costs nothing. It looks as
// execvp(3) does: a file that cannot be run does not hide a later one that can.
import fs from 'node:fs';
import path from 'node:path';
import { CaptureError, errnoOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { encodePath, showPath } from '../model/path.ts';

/** What execvp(3) searches when PATH is not set. */
const DEFAULT_PATH = '/bin:/usr/bin';

/**
 * The absolute path of `command`, relative names taken from the work directory.
 *
 * @throws CaptureError with status 127 when there is no such file, 126 when it is there and cannot be run.
 */
export function findCommand(command: string, workdir: string, searchPath = DEFAULT_PATH): string {
  const candidates = command.includes('/')
    ? [path.resolve(workdir, command)]
    : searchPath.split(':').map((dir) => path.resolve(workdir, dir, command));
  let denied: string | undefined;
  for (const candidate of command === '' ? [] : candidates) {
    const state = stateOf(candidate);
    if (state === 'runnable') return candidate;
    if (state === 'denied') denied ??= candidate;
  }
  if (denied !== undefined) {
    throw new CaptureError(
      EXIT.notExecutable,
      `cannot run ${showPath(denied)}: it is not an executable file`,
      {
        hint: `chmod +x ${showPath(denied)}, or name its interpreter before it`,
      },
    );
  }
  const where = command.includes('/') ? `in ${showPath(workdir)}` : 'in PATH';
  throw new CaptureError(EXIT.notFound, `cannot run ${showPath(command) || "''"}: no such command ${where}`, {
    hint: command.includes('/')
      ? undefined
      : `a program of the work directory is named ./${showPath(command)}`,
  });
}

function stateOf(file: string): 'runnable' | 'denied' | 'missing' {
  try {
    if (!fs.statSync(encodePath(file)).isFile()) return 'denied';
    fs.accessSync(encodePath(file), fs.constants.X_OK);
    return 'runnable';
  } catch (error) {
    const code = errnoOf(error);
    if (code === undefined) throw error;
    return code === 'EACCES' ? 'denied' : 'missing';
  }
}
