#!/usr/bin/env node
// same.mjs STORED LOCAL: are the bytes of a stored object (plain, or with .zst behind its name) those of a file?
import { existsSync, readFileSync } from 'node:fs';
import { decompress } from 'zstd-napi';

const [, , stored, local] = process.argv;
const bytes = existsSync(stored) ? readFileSync(stored) : decompress(readFileSync(`${stored}.zst`));
if (!readFileSync(local).equals(bytes)) process.exit(1);
console.log(`identical: ${local}`);
