// Node cannot run TypeScript in a worker or a child process: such an entry is bundled as for production.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const project = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Bundles an entry (`src/push/lane.ts`) and returns the file's absolute path. It stands inside node_modules,
 * so that the native packages resolve, and is removed when this process ends.
 */
export async function bundleEntry(entry: string): Promise<string> {
  const cache = path.join(project, 'node_modules/.cache/capture-test');
  fs.mkdirSync(cache, { recursive: true });
  const dir = fs.mkdtempSync(path.join(cache, 'bundle-'));
  process.once('exit', () => fs.rmSync(dir, { recursive: true, force: true }));
  await build({
    absWorkingDir: project,
    entryPoints: [entry],
    outdir: dir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    logLevel: 'error',
    external: ['koffi', 'zstd-napi', '@parcel/watcher'],
    define: { CAPTURE_VERSION: '"0.0.0-test"' },
    banner: {
      js: "import { createRequire as captureCreateRequire } from 'node:module'; const require = captureCreateRequire(import.meta.url);",
    },
  });
  return path.join(dir, `${path.basename(entry, path.extname(entry))}.mjs`);
}
