// The result of stat(2), as node:fs gives it: numbers or bigints.
import type { BigIntStats, Stats } from 'node:fs';
import type { Inode } from '../machine/inode.ts';

const TYPES = { file: 0o100000, directory: 0o40000, link: 0o120000, socket: 0o140000 } as const;
const BLOCK_BYTES = 512;

class Kinds {
  readonly #inode: Inode;

  constructor(inode: Inode) {
    this.#inode = inode;
  }

  isFile(): boolean {
    return this.#inode.kind === 'file';
  }

  isDirectory(): boolean {
    return this.#inode.kind === 'directory';
  }

  isSymbolicLink(): boolean {
    return this.#inode.kind === 'link';
  }

  isSocket(): boolean {
    return this.#inode.kind === 'socket';
  }

  isFIFO(): boolean {
    return false;
  }

  isCharacterDevice(): boolean {
    return false;
  }

  isBlockDevice(): boolean {
    return false;
  }
}

export function bigStats(inode: Inode): BigIntStats {
  const { ino, kind, mode, links, size, mtimeNs, ctimeNs, bornNs } = inode;
  const stats = {
    dev: 1n,
    ino: BigInt(ino),
    mode: BigInt(TYPES[kind] | mode),
    nlink: BigInt(links),
    uid: 0n,
    gid: 0n,
    rdev: 0n,
    size: BigInt(size),
    blksize: 4096n,
    blocks: BigInt(Math.ceil(size / BLOCK_BYTES)),
    mtimeNs,
    ctimeNs,
    atimeNs: mtimeNs,
    birthtimeNs: bornNs,
    mtimeMs: mtimeNs / 1_000_000n,
    ctimeMs: ctimeNs / 1_000_000n,
  };
  return Object.assign(new Kinds(inode), stats) as unknown as BigIntStats;
}

export function plainStats(inode: Inode): Stats {
  const { ino, kind, mode, links, size, mtimeNs, ctimeNs } = inode;
  const stats = {
    dev: 1,
    ino,
    mode: TYPES[kind] | mode,
    nlink: links,
    uid: 0,
    gid: 0,
    size,
    blksize: 4096,
    blocks: Math.ceil(size / BLOCK_BYTES),
    mtimeMs: Number(mtimeNs) / 1e6,
    ctimeMs: Number(ctimeNs) / 1e6,
  };
  return Object.assign(new Kinds(inode), stats) as unknown as Stats;
}

export function statsOf(
  inode: Inode,
  options: { readonly bigint?: boolean } | undefined,
): Stats | BigIntStats {
  return options?.bigint === true ? bigStats(inode) : plainStats(inode);
}
