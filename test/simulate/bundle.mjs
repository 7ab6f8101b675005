// Bundles the simulator with the sources, so that kernel, clock and network are those of the simulated machine.
// Replaces only the files that are listed here, none of which decides anything.
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { build } from 'esbuild';

const here = path.dirname(fileURLToPath(import.meta.url));
const requireHere = createRequire(import.meta.url);
const root = path.resolve(here, '../..');
const replaced = (name) => path.join(here, 'replaced', `${name}.ts`);

/** Modules of Node, and their replacements. The files of the simulator see the real ones. */
const NODE_MODULES = {
  'node:fs': 'fs',
  'node:fs/promises': 'fs-promises',
  'node:timers/promises': 'timers-promises',
  'node:os': 'os',
  'node:crypto': 'crypto',
  'node:net': 'net',
  'node:child_process': 'child-process',
  'node:worker_threads': 'worker-threads',
  'node:tty': 'tty',
  'node:v8': 'v8',
  'node:zlib': 'zlib',
};
/** Modules of src/, and their replacements. */
const SOURCES = {
  'src/native/libc.ts': 'libc',
  'src/native/memory.ts': 'memory',
  'src/native/zstd.ts': 'zstd',
  'src/store/http/transport.ts': 'transport',
};
/** Packages, and their replacements. */
const PACKAGES = { '@smithy/signature-v4': 'signature' };
/** Programs of worker threads: their bodies become functions, so that there can be several at once. */
const PROGRAMS = {
  'src/read/worker.ts': (text) => {
    const imports = text.match(/^import [^;]*;$/gm) ?? [];
    const body = text.replace(/^import [^;]*;$/gm, '');
    return `${imports.filter((line) => !line.includes('worker_threads')).join('\n')}
export function runWorker(parentPort, workerData) {${body}}`;
  },
};

/** All exports of a module of Node. One that is not simulated throws when it is called. */
function moduleOf(name) {
  const file = replaced(NODE_MODULES[name]);
  const text = readFileSync(file, 'utf8');
  const has = new Set(
    [...text.matchAll(/^export (?:async )?(?:const|function|class) (?:\{([^}]*)\}|(\w+))/gm)].flatMap(
      ([, many, one]) => (one === undefined ? many.split(',').map((each) => each.trim()) : [one]),
    ),
  );
  for (const [, many] of text.matchAll(/^export \{([^}]*)\}/gm))
    for (const each of many.split(',')) has.add(each.trim());
  const lacks = Object.keys(requireHere(name)).filter(
    (each) => /^[a-zA-Z]\w*$/.test(each) && !has.has(each) && each !== 'default',
  );
  return [
    `import * as all from ${JSON.stringify(file)}; export * from ${JSON.stringify(file)}; export default all;`,
    ...lacks.map(
      (each) => `export function ${each}() { throw new Error('no ${name} ${each} in this world'); }`,
    ),
  ].join('\n');
}

/** Finds what to replace by its path below the project. */
function replacing(mutant) {
  return {
    name: 'simulated',
    setup: ({ onResolve, onLoad }) => {
      onResolve({ filter: /^node:/ }, ({ path: name, importer }) => {
        if (NODE_MODULES[name] === undefined || importer.startsWith(here)) return undefined;
        return { path: name, namespace: 'simulated-node' };
      });
      onLoad({ filter: /^/, namespace: 'simulated-node' }, ({ path: name }) => ({
        contents: moduleOf(name),
        resolveDir: here,
      }));
      onResolve({ filter: /^@/ }, ({ path: name, importer }) =>
        PACKAGES[name] !== undefined && importer.startsWith(path.join(root, 'src'))
          ? { path: replaced(PACKAGES[name]) }
          : undefined,
      );
      onResolve({ filter: /^\./ }, ({ path: asked, resolveDir, importer }) => {
        const file = path.relative(root, path.resolve(resolveDir, asked));
        if (SOURCES[file] === undefined || importer.startsWith(path.join(here, 'replaced'))) return undefined;
        return { path: replaced(SOURCES[file]) };
      });
      onLoad({ filter: /\/src\/.*\.ts$/ }, async ({ path: full }) => {
        const file = path.relative(root, full);
        let text = await readFile(full, 'utf8');
        if (PROGRAMS[file] !== undefined) text = PROGRAMS[file](text);
        if (mutant?.file === file) {
          if (!text.includes(mutant.search))
            throw new Error(`${file} has no ${mutant.search}: mend the mutant`);
          text = text.replace(mutant.search, mutant.replace);
        }
        return { contents: text, loader: 'ts' };
      });
    },
  };
}

function foundPlans() {
  const found = path.join(here, 'found');
  return readdirSync(found).map((name) => JSON.parse(readFileSync(path.join(found, name), 'utf8')));
}

/** Writes the simulator as one CommonJS file. `mutant`: replaces one text in one file of src/. */
export async function bundle(outfile, mutant) {
  await build({
    entryPoints: [path.join(here, 'main.ts')],
    outfile,
    absWorkingDir: root,
    plugins: [replacing(mutant)],
    inject: [replaced('globals')],
    bundle: true,
    format: 'cjs',
    platform: 'node',
    target: 'node20',
    // Binaries that ssh2 takes if they are there.
    external: ['*.node'],
    mainFields: ['module', 'main'],
    define: {
      CAPTURE_VERSION: '"0.0.0-simulated"',
      FOUND_PLANS: JSON.stringify(foundPlans()),
      CAPTURE_ROOT: '"/simulated"',
      'import.meta.url': '"file:///simulated/main.cjs"',
      'Math.random': 'seededRandom',
    },
    logLevel: 'error',
    sourcemap: 'inline',
  });
}
