// Where the spool's copies are made: said at the start when nothing can be made there, and not when a file that is
// rewritten while it is sent needs it. A container with a read-only root file system often has no such place.
import fs from 'node:fs';
import os from 'node:os';
import type { Log } from '../../log/log.ts';
import { reasonOf } from '../../model/errors.ts';
import type { Settings } from '../../model/format/settings.ts';
import { encodePath, showPath } from '../../model/path.ts';

/** `--spool`, else the directory for temporary files; a run goes on without one. */
export function spoolDirOf({ spoolDir }: Pick<Settings, 'spoolDir'>, log: Log): string {
  const dir = spoolDir ?? os.tmpdir();
  const problem = problemOf(dir);
  if (problem !== undefined) {
    const source = spoolDir === undefined ? '' : ' (--spool)';
    log.warn(
      `cannot write in ${showPath(dir)}${source}: ${problem}: a file that is rewritten while it is sent is stored only once it rests`,
      { hint: '--spool <dir>, or TMPDIR; in a container mount a volume there' },
    );
  }
  return dir;
}

/** access(2) knows of a read-only file system, too. */
function problemOf(dir: string): string | undefined {
  try {
    if (!fs.statSync(encodePath(dir)).isDirectory()) return 'it is not a directory';
    fs.accessSync(encodePath(dir), fs.constants.W_OK | fs.constants.X_OK);
    return undefined;
  } catch (error) {
    return reasonOf(error);
  }
}
