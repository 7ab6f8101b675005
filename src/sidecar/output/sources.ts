// The regular files that the task's stdout and stderr go to, and the launcher's copies of what goes through pipes: they
// can be read beside the task. A terminal or a socket can be read only by its reader. The descriptors are the
// launcher's.
import fs from 'node:fs';
import { reasonOf } from '../../model/errors.ts';
import type { OutputFrom, OutputsFrom } from '../../model/format/messages.ts';
import type { OutputStream } from '../../model/format/output-keys.ts';

export interface OutputSource {
  readonly stream: OutputStream;
  /** Open for reading. Whoever opened the sources closes it. */
  readonly fd: number;
  /** Bytes before this offset are not the task's, but an earlier attempt's or the batch script's. */
  readonly fromBytes: number;
  /** The launcher's copy of a pipe: only its first and newest bytes are kept, and what is stored may go. */
  readonly isCopy: boolean;
}

export interface OutputSources {
  readonly sources: readonly OutputSource[];
  /** `stdout is a pipe`, for each stream that cannot be read. */
  readonly refused: readonly string[];
}

/** Looks at the descriptors of a process of our user, the launcher, without changing them. */
export function openSources(pid: number, [out, err]: OutputsFrom): OutputSources {
  const sources: OutputSource[] = [];
  const refused: string[] = [];
  if (!hasDescriptors(pid)) return { sources, refused: ['the launcher was killed before it could be read'] };
  const linkOf = ({ fd }: OutputFrom): string => `/proc/${pid}/fd/${fd}`;
  const [outStat, errStat] = [statOf(linkOf(out)), statOf(linkOf(err))];
  const isOne = outStat?.isFile() === true && outStat.ino === errStat?.ino && outStat.dev === errStat.dev;
  const streams = [
    [isOne ? 'output' : 'stdout', out, outStat],
    ...(isOne ? [] : [['stderr', err, errStat] as const]),
  ] as const;
  for (const [stream, from, stat] of streams) {
    if (stat?.isFile() !== true) {
      const why = from.notCopied === undefined ? '' : ` that cannot be copied (${from.notCopied})`;
      refused.push(`${stream} is ${kindOf(stat)}${why}`);
      continue;
    }
    const isCopy = from.fd > 2;
    try {
      const { O_RDONLY, O_RDWR, O_NONBLOCK } = fs.constants;
      // The link leads to the file itself, whatever its present name is (proc_pid_fd(5)).
      const fd = fs.openSync(linkOf(from), (isCopy ? O_RDWR : O_RDONLY) | O_NONBLOCK);
      sources.push({ stream, fd, fromBytes: from.firstByte, isCopy });
    } catch (error) {
      refused.push(`${stream} is a file that cannot be read (${reasonOf(error)})`);
    }
  }
  return { sources, refused };
}

/** False if the process has died: a zombie has none either. */
function hasDescriptors(pid: number): boolean {
  try {
    return fs.readdirSync(`/proc/${pid}/fd`).length > 0;
  } catch {
    return false;
  }
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
