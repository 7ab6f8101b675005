// The mount that a path is on, from proc_pid_mountinfo(5): statfs(2) gives only a number for the file system.
import fs from 'node:fs';

export interface Mount {
  /** The directory where it is mounted. */
  readonly point: string;
  /** `ext4`, `tmpfs`, `nfs4`, `fuse.sshfs`. */
  readonly type: string;
  /** `rw`, `nosuid`, `noexec`. */
  readonly options: readonly string[];
}

/** `path`: absolute, without links. Undefined without /proc. */
export function mountOf(path: string): Mount | undefined {
  return readTable()
    .split('\n')
    .flatMap(parseLine)
    .filter(({ point }) => path === point || path.startsWith(point === '/' ? '/' : `${point}/`))
    .reduce<Mount | undefined>(
      // Of two mounts at one point, the later one covers the other.
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

/** Space, tab, line feed and backslash are octal there: `\040`. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
