// File systems on which another node can write a file: no event reports that, only a scan finds it.
import fs from 'node:fs';
import { encodePath, type RelPath } from '../model/path.ts';
import { beneathAsText, type WorkDir } from './beneath.ts';
import { ageMs } from './clock.ts';

/** `f_type` of statfs(2), from linux/magic.h and the file systems' own sources. */
const NETWORK_TYPES: ReadonlyMap<number, string> = new Map([
  [0x6969, 'nfs'],
  [0x517b, 'smb'],
  [0xfe534d42, 'smb2'],
  [0xff534d42, 'cifs'],
  [0x0bd00bd0, 'lustre'],
  [0x47504653, 'gpfs'],
  [0x65735546, 'fuse'],
  [0x01021997, '9p'],
  [0x19830326, 'beegfs'],
  [0x00c36400, 'ceph'],
  [0x5346414f, 'afs'],
  [0x20030528, 'orangefs'],
  [0xaad7aaea, 'panfs'],
  [0x01161970, 'gfs2'],
  [0x7461636f, 'ocfs2'],
]);

/** The name of the network file system of this type; undefined for a local one. */
export function networkFileSystem(type: number): string | undefined {
  return NETWORK_TYPES.get(type >>> 0);
}

/** The same for its name in proc_pid_mountinfo(5): `nfs4`, `fuse.sshfs`. */
export function isNetworkFileSystem(name: string): boolean {
  const [family = ''] = name.split('.');
  return [...NETWORK_TYPES.values(), 'virtiofs'].some(
    (known) => family.replace(/\d+$/, '') === known.replace(/\d+$/, ''),
  );
}

/** `f_type` of statfs(2). */
export function fileSystemType(path: string): number {
  return fs.statfsSync(encodePath(path)).type;
}

/** The same for a file beneath a work directory; undefined if it cannot be looked up any more. */
export function typeBeneath(root: WorkDir, path: RelPath): number | undefined {
  try {
    return beneathAsText(root, path, fileSystemType);
  } catch {
    return undefined;
  }
}

const haveOurClock = new WeakMap<WorkDir, boolean>();

/**
 * The age of an mtime or ctime, ms; below 0 if the time of day was set back since. Undefined on a network file system,
 * whose server has a clock of its own, and if the work directory cannot be looked at.
 */
export function fileAgeMs(root: WorkDir, ns: string): number | undefined {
  let isOurs = haveOurClock.get(root);
  if (isOurs === undefined) {
    const type = typeBeneath(root, '');
    if (type === undefined) return undefined;
    isOurs = networkFileSystem(type) === undefined;
    haveOurClock.set(root, isOurs);
  }
  return isOurs ? ageMs(Number(BigInt(ns) / 1_000_000n)) : undefined;
}

/**
 * Which files beneath a work directory are on a network file system: one can be mounted anywhere below it, at any time.
 * Each device (st_dev, stat(2)) is looked up once.
 */
export class Devices {
  readonly #root: WorkDir;
  readonly #isRemote = new Map<bigint, boolean>();

  constructor(root: WorkDir) {
    this.#root = root;
  }

  /** True for a file on a network file system, whose lstat(2) gave `dev`; false if it cannot be looked up any more. */
  isRemote(path: RelPath, dev: bigint): boolean {
    const known = this.#isRemote.get(dev);
    if (known !== undefined) return known;
    const type = typeBeneath(this.#root, path);
    if (type === undefined) return false;
    const isRemote = networkFileSystem(type) !== undefined;
    this.#isRemote.set(dev, isRemote);
    return isRemote;
  }
}
