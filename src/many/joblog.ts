// The file of --joblog, in GNU parallel's format (its manual, "--joblog"): tools that read one read the other. A line for each
// start that has ended, at once, behind those that are there.
import fs from 'node:fs';
import type { Log } from '../log/log.ts';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { encodePath, showPath } from '../model/path.ts';

/** One start of an index that has ended. */
interface JoblogEntry {
  /** The index: what GNU parallel counts from 1. */
  readonly index: number;
  /** Where it ran; `:` is this machine. */
  readonly host: string;
  /** Milliseconds since 1970. */
  readonly startedAtMs: number;
  readonly runtimeMs: number;
  /** How many bytes it wrote to stdout and stderr. */
  readonly outputBytes: number;
  /** 0 if a signal ended it. */
  readonly status: number;
  /** 0 if none did. */
  readonly signal: number;
  readonly command: string;
}

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

const COLUMNS = ['Seq', 'Host', 'Starttime', 'JobRuntime', 'Send', 'Receive', 'Exitval', 'Signal', 'Command'];

/** The first line, with its newline. */
const JOBLOG_HEADER = `${COLUMNS.join('\t')}\n`;

/** One line, with its newline. Lines of a command are joined by NUL, as GNU parallel does it. */
export function joblogLine(entry: JoblogEntry): string {
  const { index, host, startedAtMs, runtimeMs, outputBytes, status, signal, command } = entry;
  const fields = [
    index,
    host,
    seconds(startedAtMs),
    seconds(runtimeMs).padStart(10),
    // Nothing is sent to a task on this machine.
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
