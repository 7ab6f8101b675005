// Builds the one bundled program in dist/: thousands of array tasks start at once on one shared file
// system, and every file that is not looked up there is a metadata request saved. The native packages
// stay outside (they carry binaries); the S3 driver is a chunk of its own, loaded on first use.
import { readFileSync, rmSync } from 'node:fs';
import { build } from 'esbuild';

const { version } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));

rmSync(new URL('dist', import.meta.url), { recursive: true, force: true });
await build({
  entryPoints: {
    capture: 'src/cli/main.ts',
    sidecar: 'src/sidecar-main.ts',
    lane: 'src/push/lane.ts',
  },
  outdir: 'dist',
  outExtension: { '.js': '.mjs' },
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: 'none',
  external: ['koffi', 'zstd-napi', '@parcel/watcher'],
  define: { CAPTURE_VERSION: JSON.stringify(version) },
  banner: {
    // CommonJS packages in an ES bundle still call require for Node's own modules.
    js: "import { createRequire as captureCreateRequire } from 'node:module'; const require = captureCreateRequire(import.meta.url);",
  },
});
