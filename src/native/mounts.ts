// The mount that a path is on, from proc_pid_mountinfo(5): statfs(2) gives only a number for the file system. Asks no
// file system anything, so a dead one holds nothing up.
import fs from 'node:fs';
import { decodePath, type RelPath } from '../model/path.ts';
import { currentPath, type WorkDir } from './beneath.ts';

export interface Mount {
  /** The directory where it is mounted. */
  readonly point: string;
  /** `major:minor` of the file system. */
  readonly device: string;
  /** `ext4`, `tmpfs`, `nfs4`, `fuse.sshfs`. */
  readonly type: string;
  /** `rw`, `nosuid`, `noexec`. */
  readonly options: readonly string[];
}

/** `path`: absolute, without links. Undefined without /proc. */
export function mountOf(path: string): Mount | undefined {
  return mounts()
    .filter(({ point }) => isAtOrBelow(path, point))
    .reduce<Mount | undefined>(
      // Of two mounts at one point, the later one covers the other.
      (best, mount) => (best === undefined || mount.point.length >= best.point.length ? mount : best),
      undefined,
    );
}

/** What is mounted beneath the work directory, as it was when this object was made. */
export class MountsBeneath {
  readonly #root: WorkDir;
  readonly #before: readonly Mount[];

  constructor(root: WorkDir) {
    this.#root = root;
    this.#before = mountsBeneath(root);
  }

  /**
   * True if a file system was mounted or unmounted since then above this path, which is below the work directory: what
   * was there before cannot be seen there any more, though nobody has removed it.
   */
  haveChangedAbove(path: RelPath): boolean {
    const above = (mounted: readonly Mount[]): string =>
      mounted
        .flatMap(({ point, device }) => (isAtOrBelow(path, point) ? `${device} ${point}` : []))
        .join('\n');
    return above(this.#before) !== above(mountsBeneath(this.#root));
  }
}

/** Their points are relative to the work directory. */
function mountsBeneath({ fd }: WorkDir): readonly Mount[] {
  const prefix = `${currentPath(fd)}/`;
  return mounts().flatMap((mount) =>
    mount.point.startsWith(prefix) ? { ...mount, point: mount.point.slice(prefix.length) } : [],
  );
}

function isAtOrBelow(path: string, point: string): boolean {
  return path === point || path.startsWith(point === '/' ? '/' : `${point}/`);
}

function mounts(): readonly Mount[] {
  return readTable().split('\n').flatMap(parseLine);
}

function readTable(): string {
  try {
    return decodePath(fs.readFileSync('/proc/self/mountinfo'));
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
  return [{ point: unescaped(point), device: fields[2] ?? '', type, options: fields[5]?.split(',') ?? [] }];
}

/** Space, tab, line feed and backslash are octal there: `\040`. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
