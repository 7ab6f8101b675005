// fstat(2) as the model understands it.
import fs from 'node:fs';
import type { FileFacts } from '../model/file/fingerprint.ts';

export function fileFacts(stat: fs.BigIntStats): FileFacts {
  return {
    dev: String(stat.dev),
    ino: String(stat.ino),
    size: Number(stat.size),
    mtimeNs: String(stat.mtimeNs),
    ctimeNs: String(stat.ctimeNs),
    mode: Number(stat.mode) & 0o7777,
    links: Number(stat.nlink),
  };
}

export function factsOf(fd: number): FileFacts {
  return fileFacts(fs.fstatSync(fd, { bigint: true }));
}
