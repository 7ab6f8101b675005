// The file of `--joblog`, in GNU parallel's format (its manual, "--joblog"): tools that read one read the other. Pure.

/** One start of an index that has ended. */
export interface JoblogEntry {
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

const COLUMNS = ['Seq', 'Host', 'Starttime', 'JobRuntime', 'Send', 'Receive', 'Exitval', 'Signal', 'Command'];

/** The first line, with its newline. */
export const JOBLOG_HEADER = `${COLUMNS.join('\t')}\n`;

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
