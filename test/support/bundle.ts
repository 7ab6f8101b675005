// Makes one plain Node program of a TypeScript fixture, so that a test can run it as a process of its own and
// kill it. The native packages stay where they are installed.
import fs from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';

const NATIVE = ['koffi', 'zstd-napi'];

/** Bundles `entry` into `outDir`, and gives the path of the program. */
export async function bundle(entry: string, outDir: string): Promise<string> {
  const installed = path.join(outDir, 'node_modules');
  if (!fs.existsSync(installed)) fs.symlinkSync(path.resolve('node_modules'), installed);
  const outfile = path.join(outDir, `${path.basename(entry, '.ts')}.mjs`);
  await build({
    entryPoints: [entry],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    logLevel: 'error',
    external: NATIVE,
    define: { CAPTURE_VERSION: JSON.stringify('0.0.0-test') },
    banner: {
      js: "import { createRequire as make } from 'node:module'; const require = make(import.meta.url);",
    },
  });
  return outfile;
}
