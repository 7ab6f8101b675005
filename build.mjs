// Builds the one bundled program in dist/: thousands of array tasks start at once on one shared file
// system, and every file that is not looked up there is a metadata request saved. The native packages
// stay outside (they carry binaries); the S3 driver is a chunk of its own, loaded on first use.
import { mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';

const { version } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));

// The crash tests build a program of their own: node build.mjs <directory> <module in place of failpoint.ts>.
const [outdir = 'dist', failpoint] = process.argv.slice(2);
const armed = {
  name: 'failpoint',
  setup: ({ onResolve }) =>
    onResolve({ filter: /\/native\/failpoint\.ts$/ }, () => ({ path: path.resolve(failpoint) })),
};

mkdirSync(outdir, { recursive: true });
const stale = new Set(readdirSync(outdir));
const { metafile } = await build({
  metafile: true,
  entryPoints: {
    capture: 'src/cli/main.ts',
    flush: 'src/cli/flush-main.ts',
    sidecar: 'src/sidecar-main.ts',
    lane: 'src/push/lane.ts',
  },
  outdir,
  plugins: failpoint === undefined ? [] : [armed],
  outExtension: { '.js': '.mjs' },
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: 'none',
  // Its CommonJS file would be a chunk without names.
  alias: { 'hash-wasm': 'hash-wasm/dist/index.esm.js' },
  external: ['koffi', 'zstd-napi', '@parcel/watcher'],
  define: { CAPTURE_VERSION: JSON.stringify(version) },
  banner: {
    // CommonJS packages in an ES bundle still call require for Node's own modules.
    js: "import { createRequire as captureCreateRequire } from 'node:module'; const require = captureCreateRequire(import.meta.url);",
  },
});

// Only now: a capture that runs from here must not lose its program in between.
for (const output of Object.keys(metafile.outputs)) stale.delete(path.basename(output));
for (const name of stale) rmSync(path.join(outdir, name));
