// The mount that a path is on, from proc_pid_mountinfo(5): statfs(2) gives only a number for the file system. Asks no
// file system anything, so a dead one holds nothing up.
import fs from 'node:fs';
import path from 'node:path';
import { decodePath, type RelPath } from '../model/path.ts';
import { currentPath, type WorkDir } from './beneath.ts';
import { isNetworkFileSystem } from './network-files.ts';
import { readProc } from './processes.ts';

export interface Mount {
  /** Unique on this machine while it is mounted, in whatever mount namespace. */
  readonly id: string;
  /** The directory of the file system that is mounted: `/`, or another one for a bind mount. */
  readonly root: string;
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
  return mountAmong(mounts(), path);
}

/**
 * Whether a path without links is on a file server other than that of `dir`, which has no links either. So it is not in
 * `dir`, and its server, which may not answer, need not be asked.
 */
export function otherServers(dir: string): (path: string) => boolean {
  const all = mounts();
  const own = mountAmong(all, dir);
  return (path) => {
    const mount = mountAmong(all, path);
    return mount !== undefined && mount.device !== own?.device && isNetworkFileSystem(mount.type);
  };
}

/** As {@link mountOf}, of these. */
export function mountAmong(mounted: readonly Mount[], path: string): Mount | undefined {
  return mounted
    .filter(({ point }) => isAtOrBelow(path, point))
    .reduce<Mount | undefined>(
      // Of two mounts at one point, the later one covers the other.
      (best, mount) => (best === undefined || mount.point.length >= best.point.length ? mount : best),
      undefined,
    );
}

/** The mount of an open file; undefined if /proc does not tell. */
export function mountOfOpen(fd: number, mounted = allMounts()): Mount | undefined {
  const mountId = mountIdIn(readProc(process.pid, `fdinfo/${fd}`));
  return mountId === undefined ? undefined : mounted.find(({ id }) => id === mountId);
}

/** Where a directory is, the same in whatever mount namespace: `path` is in the file system `device`. */
export interface Place {
  readonly device: string;
  readonly path: string;
}

/** Undefined if /proc does not tell, or if it is mounted nowhere any more. */
export function placeOf(fd: number): Place | undefined {
  const mount = mountOfOpen(fd);
  const now = currentPath(fd);
  if (mount === undefined || !isAtOrBelow(now, mount.point)) return undefined;
  return { device: mount.device, path: path.join(mount.root, path.relative(mount.point, now)) };
}

/** Whether the directory, or one beneath it, is mounted for the process, by whatever path. */
export function isMountedFor(pid: number, place: Place): boolean {
  return mounts(pid).some(({ device, root }) => device === place.device && isAtOrBelow(root, place.path));
}

/** Of this process, in the order in which they were mounted. Empty without /proc. */
export function allMounts(): readonly Mount[] {
  return mounts();
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

/**
 * The file systems of the work directory: its own, and those that are mounted beneath it. Says of a descriptor whether it
 * leads to one of them, because stat(2) of a file elsewhere may wait for a server that does not answer.
 */
export class FileSystems {
  /** Empty if /proc does not tell. */
  readonly #ours: ReadonlySet<string>;
  /** By id of the mount. */
  readonly #devices = new Map<string, string>();
  readonly #seen = new Set<number>();

  constructor(root: WorkDir) {
    this.#learn(process.pid);
    const own = this.#devices.get(mountIdIn(readProc(process.pid, `fdinfo/${root.fd}`)) ?? '');
    this.#ours = new Set(own === undefined ? [] : [own, ...mountsBeneath(root).map(({ device }) => device)]);
  }

  /**
   * `info`: the descriptor's text in proc_pid_fdinfo(5). Undefined if what it is on is mounted nowhere any more
   * (MNT_DETACH, umount2(2)). True if that cannot be told on this machine.
   */
  have(pid: number, info: string): boolean | undefined {
    const id = mountIdIn(info);
    if (id === undefined || this.#ours.size === 0) return true;
    if (!this.#devices.has(id)) this.#learn(pid);
    const device = this.#devices.get(id);
    return device === undefined ? undefined : this.#ours.has(device);
  }

  #learn(pid: number): void {
    if (this.#seen.has(pid)) return;
    this.#seen.add(pid);
    for (const { id, device } of mounts(pid)) this.#devices.set(id, device);
  }
}

/** None before Linux 3.15. */
function mountIdIn(info = ''): string | undefined {
  return /^mnt_id:\s*(\d+)/m.exec(info)?.[1];
}

function isAtOrBelow(path: string, point: string): boolean {
  return path === point || path.startsWith(point === '/' ? '/' : `${point}/`);
}

function mounts(pid: number | 'self' = 'self'): readonly Mount[] {
  return readTable(pid).split('\n').flatMap(parseLine);
}

function readTable(pid: number | 'self'): string {
  try {
    return decodePath(fs.readFileSync(`/proc/${pid}/mountinfo`));
  } catch {
    return '';
  }
}

/** `36 35 98:0 /root /point rw,noatime master:1 - ext4 /dev/sda1 rw`; the optional fields end at the hyphen. */
function parseLine(line: string): readonly Mount[] {
  const fields = line.split(' ');
  const [id = '', , device = '', root = '', point] = fields;
  const type = fields[fields.indexOf('-', 6) + 1];
  if (point === undefined || type === undefined) return [];
  return [
    {
      id,
      root: unescaped(root),
      point: unescaped(point),
      device,
      type,
      options: fields[5]?.split(',') ?? [],
    },
  ];
}

/** Space, tab, line feed and backslash are octal there: `\040`. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
