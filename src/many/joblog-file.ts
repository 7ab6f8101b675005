// The file of --joblog: a line for each start that has ended, at once. One that is there is gone on with.
import fs from 'node:fs';
import type { Log } from '../log/log.ts';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { JOBLOG_HEADER, type JoblogEntry, joblogLine } from '../model/many/joblog.ts';
import { encodePath, showPath } from '../model/path.ts';

export interface JoblogFile {
  write(entry: JoblogEntry): void;
  close(): void;
}

/** Throws status 64 if it cannot be written. What has no room later is lost, and said once: the tasks are worth more. */
export function openJoblog(file: string, log: Pick<Log, 'warn'>): JoblogFile {
  let isSaid = false;
  try {
    const fd = fs.openSync(encodePath(file), 'a');
    if (fs.fstatSync(fd).size === 0) fs.writeSync(fd, JOBLOG_HEADER);
    return {
      write: (entry) => {
        try {
          fs.writeSync(fd, joblogLine(entry));
        } catch (error) {
          if (!isSaid) log.warn(`--joblog ${showPath(file)} lacks lines from now on: ${reasonOf(error)}`);
          isSaid = true;
        }
      },
      close: () => fs.closeSync(fd),
    };
  } catch (error) {
    throw new CaptureError(EXIT.usage, `cannot write --joblog ${showPath(file)}: ${reasonOf(error)}`, {
      hint: 'name a file in a directory that can be written',
      cause: error,
    });
  }
}
