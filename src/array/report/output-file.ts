// The file that a page is written to. It is written under a temporary name and then renamed, so its name shows either
// the previous page or the complete new one.
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { CaptureError, reasonOf } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';

export interface Sink {
  write(text: string): Promise<void>;
}

export interface OutputFile extends Sink {
  readonly bytes: number;
  /** Renames the complete file to its name. */
  keep(): void;
  /** Removes a file that was not kept. */
  close(): void;
}

/** Throws status 64 if the file cannot be written. */
export function openOutputFile(file: string): OutputFile {
  const temp = `${file}.${randomBytes(4).toString('hex')}.tmp`;
  const fd = refusing(file, () => {
    // Otherwise a directory would be noticed only after everything was read.
    if (fs.statSync(file, { throwIfNoEntry: false })?.isDirectory() === true)
      throw new Error('it is a directory');
    return fs.openSync(temp, 'wx');
  });
  let bytes = 0;
  let isKept = false;
  return {
    write: async (text) => {
      refusing(file, () => {
        fs.writeFileSync(fd, text);
      });
      bytes += Buffer.byteLength(text);
    },
    get bytes() {
      return bytes;
    },
    keep: () => {
      refusing(file, () => fs.renameSync(temp, file));
      isKept = true;
    },
    close: () => {
      fs.closeSync(fd);
      if (!isKept) fs.rmSync(temp, { force: true });
    },
  };
}

function refusing<T>(file: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw new CaptureError(EXIT.usage, `cannot write ${file}: ${reasonOf(error)}`, {
      hint: '-o names a file that you can write',
      cause: error,
    });
  }
}
