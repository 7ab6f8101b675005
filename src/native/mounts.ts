// The mount that a path lies on, as proc_pid_mountinfo(5) tells it: statfs(2) knows only a number of the file system.
import fs from 'node:fs';

export interface Mount {
  /** Where it is mounted. */
  readonly point: string;
  /** `ext4`, `tmpfs`, `nfs4`, `fuse.sshfs`. */
  readonly type: string;
  /** `rw`, `nosuid`, `noexec`. */
  readonly options: readonly string[];
}

/** `path`: absolute, without links. Undefined where the kernel does not tell. */
export function mountOf(path: string): Mount | undefined {
  return readTable()
    .split('\n')
    .flatMap(parseLine)
    .filter(({ point }) => path === point || path.startsWith(point === '/' ? '/' : `${point}/`))
    .reduce<Mount | undefined>(
      // Of two at one place the later one lies on top.
      (best, mount) => (best === undefined || mount.point.length >= best.point.length ? mount : best),
      undefined,
    );
}

function readTable(): string {
  try {
    return fs.readFileSync('/proc/self/mountinfo', 'utf8');
  } catch {
    return '';
  }
}

/** `36 35 98:0 /root /point rw,noatime master:1 - ext4 /dev/sda1 rw`; the optional fields end at the hyphen. */
function parseLine(line: string): readonly Mount[] {
  const fields = line.split(' ');
  const point = fields[4];
  const type = fields[fields.indexOf('-', 6) + 1];
  if (point === undefined || type === undefined) return [];
  return [{ point: unescaped(point), type, options: fields[5]?.split(',') ?? [] }];
}

/** Space, tab, line feed and backslash stand there as `\040`. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
