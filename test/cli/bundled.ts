// How tests bundle a program of their own from the sources, as build.mjs does.
import path from 'node:path';
import type { BuildOptions } from 'esbuild';

export const BUNDLED = {
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  // Binaries that ssh2 takes if they are there.
  external: ['*.node'],
  define: { CAPTURE_VERSION: '"1.2.3"', CAPTURE_ROOT: JSON.stringify(path.resolve('.')) },
  banner: {
    js: "import { createRequire as captureCreateRequire } from 'node:module'; const require = captureCreateRequire(import.meta.url);",
  },
} as const satisfies BuildOptions;
