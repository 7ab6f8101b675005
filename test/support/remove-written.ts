import fs from 'node:fs';

/**
 * Removes a directory while programs may still write into it. `fs.rmSync` lists a directory once: its retries repeat
 * only the last rmdir, and a file that appears before that makes all of them fail with ENOTEMPTY.
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
