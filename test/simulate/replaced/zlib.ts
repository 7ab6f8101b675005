// node:zlib: without the zstd that newer Nodes have. It would work in real time, and the same seed would not give the same
// run on every Node.
import zlib from 'node:zlib';

export const { crc32 } = zlib;
