// The file of --joblog, in GNU parallel's format (its manual, "--joblog"), so that the same tools read both. Each start
// that ends appends a line at once.
import fs from 'node:fs';
import type { Log } from '../log/log.ts';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { showPath } from '../model/path.ts';
import { openToAppend } from '../native/files.ts';

/** One start of an index that has ended. */
interface JoblogEntry {
  /** The index; GNU parallel has a sequence number from 1 here. */
  readonly index: number;
  /** The host that ran it; `:` is this machine. */
  readonly host: string;
  /** Milliseconds since 1970. */
  readonly startedAtMs: number;
  readonly runtimeMs: number;
  /** Size of stdout and stderr together. */
  readonly outputBytes: number;
  /** 0 if a signal ended it. */
  readonly status: number;
  /** 0 if no signal ended it. */
  readonly signal: number;
  readonly command: string;
}

export interface JoblogFile {
  write(entry: JoblogEntry): void;
  close(): void;
}

/**
 * Throws status 64 if the file cannot be written. A later write error (such as a full disk) loses lines, and is logged
 * once: it must not stop the tasks.
 */
export function openJoblog(file: string, log: Pick<Log, 'warn'>): JoblogFile {
  let isSaid = false;
  try {
    const fd = openToAppend(file);
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

const COLUMNS = ['Seq', 'Host', 'Starttime', 'JobRuntime', 'Send', 'Receive', 'Exitval', 'Signal', 'Command'];

/** The header, with its newline. */
const JOBLOG_HEADER = `${COLUMNS.join('\t')}\n`;

/** One line, with its newline. Line breaks within a command become NUL, as in GNU parallel. */
export function joblogLine(entry: JoblogEntry): string {
  const { index, host, startedAtMs, runtimeMs, outputBytes, status, signal, command } = entry;
  const fields = [
    index,
    host,
    seconds(startedAtMs),
    seconds(runtimeMs).padStart(10),
    // GNU parallel's count of bytes sent to the host: 0 on this machine.
    0,
    outputBytes,
    status,
    signal,
    command.replaceAll('\n', '\0'),
  ];
  return `${fields.join('\t')}\n`;
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(3);
}
