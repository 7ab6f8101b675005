import fs from 'node:fs';

/**
 * Removes a directory into which somebody may still write. `fs.rmSync` looks once at what is in it: its retries are of
 * the last rmdir alone, and a file that comes between the two ends all of them with ENOTEMPTY.
 */
export function removeWritten(dir: string): void {
  for (let left = 1000; ; left -= 1) {
    try {
      return fs.rmSync(dir, { recursive: true, force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY' || left === 0) throw error;
    }
  }
}
