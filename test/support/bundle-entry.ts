// Node cannot run TypeScript in a worker or a child process, so the entry of one is bundled as for production.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const project = fileURLToPath(new URL('../..', import.meta.url));
const cache = path.join(project, 'node_modules/.cache/capture-test');

/**
 * Bundles an entry (`src/read/worker.ts`) and returns the absolute path of the bundle. The bundle is inside
 * node_modules, so that native packages resolve, in a directory that is named by its content. Nothing removes it, as
 * test processes may be killed; but the same bundle is never written twice.
 */
export async function bundleEntry(entry: string): Promise<string> {
  const { outputFiles } = await build({
    absWorkingDir: project,
    entryPoints: [entry],
    outdir: cache,
    outExtension: { '.js': '.mjs' },
    write: false,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    // Binaries that ssh2 takes if they are there.
    external: ['*.node'],
    logLevel: 'error',
    define: { CAPTURE_VERSION: '"0.0.0-test"', CAPTURE_ROOT: JSON.stringify(project) },
    banner: {
      js: "import { createRequire as captureCreateRequire } from 'node:module'; const require = captureCreateRequire(import.meta.url);",
    },
  });
  const content = createHash('sha256');
  for (const file of outputFiles) content.update(file.contents);
  const dir = path.join(cache, content.digest('hex').slice(0, 16));
  if (!fs.existsSync(dir)) {
    fs.mkdirSync(cache, { recursive: true });
    const fresh = fs.mkdtempSync(path.join(cache, 'fresh-'));
    for (const file of outputFiles)
      fs.writeFileSync(path.join(fresh, path.basename(file.path)), file.contents);
    putInPlace(fresh, dir);
  }
  return path.join(dir, `${path.basename(entry, path.extname(entry))}.mjs`);
}

/** Another test process may have put the same bundle there meanwhile: then that one stays. */
function putInPlace(fresh: string, dir: string): void {
  try {
    fs.renameSync(fresh, dir);
  } catch (error) {
    fs.rmSync(fresh, { recursive: true });
    if (!fs.existsSync(dir)) throw error;
  }
}
