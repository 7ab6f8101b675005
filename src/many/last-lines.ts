// The last lines of a task's log on this machine, for the message that it failed.
import fs from 'node:fs';
import { LAST_LINES_BYTES, lastLinesOf } from '../model/last-lines.ts';
import { openRegular } from '../native/files.ts';

/** Returns no lines if the file cannot be read. */
export function lastLines(file: string): readonly string[] {
  try {
    const fd = openRegular(file, fs.constants.O_RDONLY);
    try {
      const { size } = fs.fstatSync(fd);
      const bytes = Buffer.alloc(Math.min(size, LAST_LINES_BYTES));
      const length = fs.readSync(fd, bytes, 0, bytes.length, size - bytes.length);
      return lastLinesOf(bytes.subarray(0, length));
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return [];
  }
}
