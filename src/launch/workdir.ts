// The work directory, held open by the launcher: its path now, whatever the task does with its name.
import fs from 'node:fs';
import { encodePath } from '../model/path.ts';
import { currentPath } from '../native/beneath.ts';

export interface HeldWorkdir {
  /** The real path; of a directory that the task has removed, one at which nothing stands. */
  now(): string;
  close(): void;
}

export function holdWorkdir(path: string): HeldWorkdir {
  const real = fs.realpathSync(path);
  if (process.platform !== 'linux') return { now: () => real, close: () => undefined };
  const fd = fs.openSync(encodePath(path), fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  return { now: () => currentPath(fd), close: () => fs.closeSync(fd) };
}
