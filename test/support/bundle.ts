// Bundles a TypeScript fixture into one Node program, which a test can run and kill as a process of its own. The native
// packages stay where they are installed.
import path from 'node:path';
import { build } from 'esbuild';

/** Bundles `entry` into `outDir`, and returns the path of the program. */
export async function bundle(entry: string, outDir: string): Promise<string> {
  const outfile = path.join(outDir, `${path.basename(entry, '.ts')}.mjs`);
  await build({
    entryPoints: [entry],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    // Binaries that ssh2 takes if they are there.
    external: ['*.node'],
    logLevel: 'error',
    define: {
      CAPTURE_VERSION: JSON.stringify('0.0.0-test'),
      CAPTURE_ROOT: JSON.stringify(path.resolve('.')),
    },
    banner: {
      js: "import { createRequire as captureCreateRequire } from 'node:module'; const require = captureCreateRequire(import.meta.url);",
    },
  });
  return outfile;
}
