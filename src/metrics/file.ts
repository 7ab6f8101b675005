// Writes the numbers into a file, such as one for the textfile collector of Prometheus' node exporter: whole, by a
// rename, so that nobody reads half of it.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs/promises';
import path from 'node:path';
import { encodePath, showPath } from '../model/path.ts';
import type { Metrics } from './numbers.ts';

/** Rejects if it cannot be written. */
export async function openFile(file: string, text: () => Promise<string>): Promise<Metrics> {
  // No name that a collector of *.prom would read.
  const temporary = path.join(path.dirname(file), `.${path.basename(file)}.${randomUUID()}.tmp`);
  const write = async (): Promise<void> => {
    try {
      // Anew each time: nothing that somebody else has put there is written through.
      await fs.writeFile(encodePath(temporary), await text(), { flag: 'wx' });
      await fs.rename(encodePath(temporary), encodePath(file));
    } catch (error) {
      await fs.rm(encodePath(temporary), { force: true }).catch(() => undefined);
      throw error;
    }
  };
  await write();
  let last = Promise.resolve();
  return {
    where: showPath(file),
    look: () => {
      // One after the other, also if the disk is slower than the looks.
      last = last.catch(() => undefined).then(write);
      return last;
    },
    close: async () => {
      await last.catch(() => undefined);
      // What cannot be removed stays, and never ends the run.
      await fs.rm(encodePath(file), { force: true }).catch(() => undefined);
    },
  };
}
