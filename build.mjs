// Builds the program in dist/: thousands of array tasks start at once on one shared file system, and every file that
// is not opened there is a metadata request saved. So each process is one file, with all that its start needs; what
// only some runs need is a file of its own, loaded on first use. The native packages stay outside (they carry binaries):
// they alone are `dependencies` in package.json; what is bundled is a devDependency.
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const { version } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));

// The crash tests build a program of their own: node build.mjs <directory> <module in place of failpoint.ts>.
const [outdir = 'dist', failpoint] = process.argv.slice(2);

/** The drivers of stores that need packages: all but that of a directory. */
const DRIVERS = Object.fromEntries(
  readdirSync('src/store')
    .filter((name) => name !== 'file')
    .map((name) => [name, `src/store/${name}/${name}.ts`])
    .filter(([, entry]) => existsSync(entry)),
);
const ENTRIES = {
  capture: 'src/cli/main.ts',
  flush: 'src/cli/flush-main.ts',
  sidecar: 'src/sidecar/entry.ts',
  array: 'src/array/main.ts',
  // On demand.
  standalone: 'src/cli/standalone.ts',
  log: 'src/log/log.ts',
  doctor: 'src/doctor/doctor.ts',
  ...DRIVERS,
  // The AWS SDK's sources of credentials.
  credentials: 'src/store/s3/credentials.ts',
  // Its CommonJS file would be one without names.
  'hash-wasm': 'node_modules/hash-wasm/dist/index.esm.js',
};
const ON_DEMAND = ['standalone', 'log', 'doctor', 'credentials', 'hash-wasm', ...Object.keys(DRIVERS)];

const armed = {
  name: 'failpoint',
  setup: ({ onResolve }) =>
    onResolve({ filter: /\/native\/failpoint\.ts$/ }, () => ({ path: path.resolve(failpoint) })),
};
/** An import() of what is on demand is one of its file. */
const onDemand = {
  name: 'on-demand',
  setup: ({ onResolve }) =>
    onResolve({ filter: /^(\.|hash-wasm$)/ }, ({ path: asked, kind, resolveDir }) => {
      if (kind !== 'dynamic-import') return undefined;
      const file = path.relative(fileURLToPath(new URL('.', import.meta.url)), path.join(resolveDir, asked));
      const name = ON_DEMAND.find((one) => ENTRIES[one] === file || one === asked);
      return name === undefined ? undefined : { path: `./${name}.mjs`, external: true };
    }),
};

mkdirSync(outdir, { recursive: true });
const stale = new Set(readdirSync(outdir));
await Promise.all(
  Object.entries(ENTRIES).map(([name, entry]) =>
    build({
      entryPoints: { [name]: entry },
      outdir,
      plugins: failpoint === undefined ? [onDemand] : [onDemand, armed],
      outExtension: { '.js': '.mjs' },
      bundle: true,
      format: 'esm',
      platform: 'node',
      target: 'node20',
      // Of a package's two forms the one whose unused parts can be left out.
      mainFields: ['module', 'main'],
      minifySyntax: true,
      minifyWhitespace: true,
      legalComments: 'none',
      external: ['koffi', 'zstd-napi', '@parcel/watcher'],
      define: { CAPTURE_VERSION: JSON.stringify(version) },
      banner: {
        // CommonJS packages in an ES bundle still call require for Node's own modules.
        js: "import { createRequire as captureCreateRequire } from 'node:module'; const require = captureCreateRequire(import.meta.url);",
      },
    }),
  ),
);

// Only now: a capture that runs from here must not lose its program in between.
for (const name of stale) if (!(path.parse(name).name in ENTRIES)) rmSync(path.join(outdir, name));
