// The last lines of what a task wrote, for the message that it failed.
import fs from 'node:fs';
import { decodePath, encodePath } from '../model/path.ts';

const LINES = 10;
const MOST_BYTES = 4096;

/** None if the file cannot be read. */
export function lastLines(file: string): readonly string[] {
  try {
    const fd = fs.openSync(encodePath(file), 'r');
    try {
      const { size } = fs.fstatSync(fd);
      const bytes = Buffer.alloc(Math.min(size, MOST_BYTES));
      const length = fs.readSync(fd, bytes, 0, bytes.length, size - bytes.length);
      const lines = decodePath(bytes.subarray(0, length)).split('\n');
      return lines.filter((line) => line.trim() !== '').slice(-LINES);
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return [];
  }
}
