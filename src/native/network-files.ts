// File systems on which another node can write a file: no event tells of that, only a scan.
import fs from 'node:fs';

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

/** The name of the network file system with this type, undefined for a local one. */
export function networkFileSystem(type: number): string | undefined {
  return NETWORK_TYPES.get(type >>> 0);
}

export function fileSystemType(path: string): number {
  return fs.statfsSync(path).type;
}
