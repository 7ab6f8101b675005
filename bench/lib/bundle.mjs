// Parts of capture that the bench calls itself, bundled as its programs are.
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const project = fileURLToPath(new URL('../..', import.meta.url));
const out = path.join(project, 'node_modules/.cache/capture-bench');

/** Resolves to the directory that then has each of them as `<name>.mjs`; paths are relative to the project. */
export async function bundle(...entryPoints) {
  await build({
    absWorkingDir: project,
    entryPoints,
    entryNames: '[name]',
    outdir: out,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    // Binaries that ssh2 takes if they are there.
    external: ['*.node'],
    define: { CAPTURE_ROOT: JSON.stringify(project) },
    banner: {
      js: "import { createRequire as captureCreateRequire } from 'node:module'; const require = captureCreateRequire(import.meta.url);",
    },
  });
  return out;
}
