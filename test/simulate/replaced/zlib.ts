// node:zlib without the zstd of newer Nodes: it would run in real time, and the same seed would give different runs on
// different Nodes.
import zlib from 'node:zlib';

export const { crc32 } = zlib;
