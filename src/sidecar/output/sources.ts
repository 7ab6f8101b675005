// The regular files that the task's stdout and stderr go to: they can be read beside the task. A pipe or a terminal can
// be read only by its reader. The descriptors are the launcher's, which passes them on untouched.
import fs from 'node:fs';
import { reasonOf } from '../../model/errors.ts';
import type { OutputsFrom } from '../../model/format/messages.ts';
import type { OutputStream } from '../../model/format/output-keys.ts';

export interface OutputSource {
  readonly stream: OutputStream;
  /** Open for reading. Whoever opened the sources closes it. */
  readonly fd: number;
  /** Bytes before this offset are not the task's, but an earlier attempt's or the batch script's. */
  readonly fromBytes: number;
}

export interface OutputSources {
  readonly sources: readonly OutputSource[];
  /** `stdout is a pipe`, for each stream that cannot be read. */
  readonly refused: readonly string[];
}

const STREAMS = [
  ['stdout', 1],
  ['stderr', 2],
] as const;

/** Looks at the descriptors of a process of our user, the launcher, without changing them. */
export function openSources(pid: number, outputsFrom: OutputsFrom): OutputSources {
  const sources: OutputSource[] = [];
  const refused: string[] = [];
  const [out, err] = STREAMS.map(([, fd]) => statOf(`/proc/${pid}/fd/${fd}`));
  const isOne = out?.isFile() === true && out.ino === err?.ino && out.dev === err.dev;
  for (const [stream, fd] of isOne ? ([['output', 1]] as const) : STREAMS) {
    const link = `/proc/${pid}/fd/${fd}`;
    const stat = statOf(link);
    if (stat?.isFile() !== true) {
      refused.push(`${stream} is ${kindOf(stat)}`);
      continue;
    }
    try {
      // The link leads to the file itself, whatever its present name is (proc_pid_fd(5)).
      const opened = fs.openSync(link, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
      sources.push({ stream, fd: opened, fromBytes: outputsFrom[fd - 1] ?? 0 });
    } catch (error) {
      refused.push(`${stream} is a file that cannot be read (${reasonOf(error)})`);
    }
  }
  return { sources, refused };
}

function statOf(link: string): fs.BigIntStats | undefined {
  try {
    return fs.statSync(link, { bigint: true });
  } catch {
    return undefined; // closed, or hidden from us
  }
}

function kindOf(stat: fs.BigIntStats | undefined): string {
  if (stat === undefined) return 'closed';
  if (stat.isFIFO()) return 'a pipe';
  if (stat.isSocket()) return 'a socket';
  return stat.isCharacterDevice() ? 'a terminal or a device' : 'no regular file';
}
