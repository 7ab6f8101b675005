#!/usr/bin/env node
// same.mjs STORED LOCAL: exits 0 if a stored object (plain, or with .zst after its name) has the same bytes as a file.
import { existsSync, readFileSync } from 'node:fs';
import * as zlib from 'node:zlib';

const [, , stored, local] = process.argv;
// Node's own zstd from 22.15 on, otherwise zstd-napi.
const decompress = async (frame) =>
  (zlib.zstdDecompressSync ?? (await import('zstd-napi')).decompress)(frame);
const bytes = existsSync(stored) ? readFileSync(stored) : await decompress(readFileSync(`${stored}.zst`));
if (!readFileSync(local).equals(bytes)) process.exit(1);
console.log(`identical: ${local}`);
