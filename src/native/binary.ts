// The binary of an installed package, by its file: one open, where the package's own loader takes seven. Thousands of
// tasks start at once on one shared file system.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** Undefined if it is not there, or not for this machine: then ask the package's own loader. */
export function loadBinary(file: string): unknown {
  let dir = path.dirname(fileURLToPath(import.meta.url));
  for (; ; dir = path.dirname(dir)) {
    const binary = `${dir}/node_modules/${file}`;
    if (fs.existsSync(binary)) return loaded(binary);
    if (dir === path.dirname(dir)) return undefined;
  }
}

function loaded(binary: string): unknown {
  const module: { readonly exports: unknown } = { exports: {} };
  try {
    // As require does, which would also open the package.json of whoever asks.
    process.dlopen(module, binary);
    return module.exports;
  } catch {
    return undefined; // of another libc
  }
}
