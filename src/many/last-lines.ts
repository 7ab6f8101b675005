// The last lines that a task wrote in its last attempt, for the message that it failed.
import fs from 'node:fs';
import { decodePath } from '../model/path.ts';
import { openRegular } from '../native/files.ts';

const LINES = 10;
const MOST_BYTES = 4096;
/** The first message of each run on the same stderr. Everything before it is from earlier attempts. */
const BEGINS = /\bcapture: task .*, attempt \d+ -> /;

/** Returns no lines if the file cannot be read. */
export function lastLines(file: string): readonly string[] {
  try {
    const fd = openRegular(file, fs.constants.O_RDONLY);
    try {
      const { size } = fs.fstatSync(fd);
      const bytes = Buffer.alloc(Math.min(size, MOST_BYTES));
      const length = fs.readSync(fd, bytes, 0, bytes.length, size - bytes.length);
      const lines = decodePath(bytes.subarray(0, length)).split('\n');
      const begun = lines.findLastIndex((line) => BEGINS.test(line));
      return lines
        .slice(begun + 1)
        .filter((line) => line.trim() !== '')
        .slice(-LINES);
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return [];
  }
}
