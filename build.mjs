// Builds the program in dist/: ordinary JavaScript, with source maps (docs/dev/adr/0018). Thousands of array tasks start at once
// on one shared file system, and every file that is not opened there is a metadata request saved. So what a run loads is one
// file for each process, and one for each thing that only some runs need, loaded on first use. The commands for
// many tasks are split where they share code. The packages that carry binaries stay outside: they alone are
// dependencies in package.json, some optional; what is bundled is a devDependency.
import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire, isBuiltin } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import v8 from 'node:v8';
import vm from 'node:vm';
import { crc32 } from 'node:zlib';
import { build as esbuild } from 'esbuild';
import { boardUiNotices, noticesOf, packagesIn } from './licences/licences.mjs';

const { version } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));

const requireHere = createRequire(import.meta.url);

/** What each bundle is made of. */
const metafiles = [];
async function build(options) {
  const result = await esbuild({ ...options, metafile: true });
  metafiles.push(result.metafile);
  const missing = outsideImports(result.metafile).filter((name) => !ON_DEMAND_FILES.has(name));
  if (missing.length > 0)
    throw new Error(
      `no program finds ${missing.join(', ')}: bundle it, or say WITHOUT that it is not needed`,
    );
  return result;
}

/** What a bundle asks for that is neither in it, nor a module of Node. */
function outsideImports({ outputs }) {
  return Object.values(outputs)
    .flatMap(({ imports }) => imports)
    .filter(({ path: name, external }) => external && !isBuiltin(name))
    .map(({ path: name }) => name);
}

// The crash tests build a program of their own: node build.mjs <directory> <module in place of failpoint.ts>.
const [outdir = 'dist', failpoint] = process.argv.slice(2);

/** The drivers of stores that need packages: all but that of a directory. */
const DRIVERS = Object.fromEntries(
  readdirSync('src/store')
    .filter((name) => name !== 'file')
    .map((name) => [name, `src/store/${name}/${name}.ts`])
    .filter(([, entry]) => existsSync(entry)),
);
/** What each task waits for, as scripts: V8's code is kept beside them (native/compiled.ts). */
const COMPILED = { capture: 'src/cli/main.ts', sidecar: 'src/sidecar/main.ts' };
/** The other processes. */
const PROCESSES = { flush: 'src/cli/flush-main.ts' };
/** Of many tasks: these share code. */
const SPLIT = { array: 'src/array/main.ts', many: 'src/many/main.ts', queue: 'src/many/queue/main.ts' };
/** What other programs import. */
const LIBRARY = { library: 'src/library/library.ts' };
/** Of each process, dist/<name>.cjs. */
const FIRST_FILES = {
  capture: 'src/cli/first.ts',
  sidecar: 'src/native/first.ts',
  flush: 'src/native/first.ts',
  array: 'src/native/first-module.ts',
  many: 'src/native/first-module.ts',
  queue: 'src/native/first-module.ts',
};
/** What `capture template` prints: examples, which the tests run. */
const TEMPLATES = {
  array: 'jobs/array.yaml',
  queue: 'jobs/queue.yaml',
  slurm: 'slurm/array.sbatch',
  gridengine: 'gridengine/array.sge',
  pbs: 'pbs/array.pbs',
  lsf: 'lsf/array.lsf',
  htcondor: 'htcondor/array.sub',
  flux: 'flux/submit.sh',
  'gnu-parallel': 'gnu-parallel/sweep.sh',
  apptainer: 'apptainer/array.sbatch',
  kubernetes: 'kubernetes/native-sidecar.yaml',
  'aws-batch': 'aws-batch/job-definition.yaml',
  'google-batch': 'google-batch/job.json',
  'azure-batch': 'azure-batch/submit.sh',
};
/** What only some runs need; an import() of it loads a file of its own. */
const ON_DEMAND = {
  standalone: 'src/cli/standalone.ts',
  job: 'src/cli/job/job-line.ts',
  log: 'src/log/log.ts',
  metrics: 'src/metrics/metrics.ts',
  notify: 'src/notify/notify.ts',
  'wasm-md5': 'src/model/wasm-md5.ts',
  age: 'src/seal/age.ts',
  ...DRIVERS,
  // The AWS SDK's sources of credentials.
  credentials: 'src/store/s3/credentials.ts',
  // Its client for S3, and lib-storage.
  sdk: 'src/store/s3/sdk.ts',
  // Microsoft Entra's sources of credentials.
  identity: 'src/store/azure/identity.ts',
};
const ON_DEMAND_FILES = new Set(Object.keys(ON_DEMAND).map((name) => `./${name}.cjs`));
/**
 * What bundled packages can use if it is there: other engines, binaries that pack faster, colours. A program finds none of
 * them, whatever is installed around it.
 */
const WITHOUT = [
  '@aws-sdk/signature-v4-crt',
  '@aws-sdk/signature-v4a',
  '@valkey/valkey-glide',
  // ssh2: its own cryptography beside that of Node, and a look at the processor.
  './crypto/build/Release/sshcrypto.node',
  'cpu-features',
  'msgpackr-extract',
  // gaxios: its requests go over our sockets.
  'node-fetch',
  'pg',
  'supports-color',
];

const armed = {
  name: 'failpoint',
  setup: ({ onResolve }) =>
    onResolve({ filter: /\/native\/failpoint\.ts$/ }, () => ({ path: path.resolve(failpoint) })),
};
/** An import() of what is on demand is one of its file. */
const onDemand = {
  name: 'on-demand',
  setup: ({ onResolve }) =>
    onResolve({ filter: /^\./ }, ({ path: asked, kind, resolveDir }) => {
      if (kind !== 'dynamic-import') return undefined;
      const file = path.relative(fileURLToPath(new URL('.', import.meta.url)), path.join(resolveDir, asked));
      const name = Object.keys(ON_DEMAND).find((one) => ON_DEMAND[one] === file);
      return name === undefined ? undefined : { path: `./${name}.cjs`, external: true };
    }),
};

/** Node is never asked for a package: it looks in directories that are not ours (native/binary.ts). */
const nothingElse = {
  name: 'nothing-else',
  setup: ({ onResolve, onLoad }) => {
    const own = (contents) => ({ contents, loader: 'js' });
    onResolve({ filter: new RegExp(`^(${WITHOUT.join('|')})$`) }, ({ path: name }) => ({
      path: name,
      namespace: 'without',
    }));
    onLoad({ filter: /^/, namespace: 'without' }, ({ path: name }) =>
      own(`throw Object.assign(new Error('${name} is no part of capture'), { code: 'MODULE_NOT_FOUND' });`),
    );
    onResolve({ filter: /^(node:)?module$/ }, () => ({ path: 'module', namespace: 'own-require' }));
    onLoad({ filter: /^/, namespace: 'own-require' }, () =>
      own('export const createRequire = () => require; export default { createRequire };'),
    );
  },
};
/** The `require` of all that is bundled. */
const REQUIRE = `const require = (id) => {
  const found = process.getBuiltinModule(id);
  if (found === undefined) throw Object.assign(new Error(\`\${id} is no part of capture\`), { code: 'MODULE_NOT_FOUND' });
  return found;
};`;

/**
 * Scripts: each module of Node is one module of a program. As an outside import esbuild copies all its names for each file
 * that imports it: 8 ms of the sidecar's start. What a file does not import is left out. The order of imports is kept.
 */
const nodeOnce = {
  name: 'node-once',
  setup: ({ onResolve, onLoad }) => {
    onResolve({ filter: /^node:/ }, ({ path: name, kind }) =>
      kind === 'import-statement' ? { path: name, namespace: 'node-once', sideEffects: false } : undefined,
    );
    onLoad({ filter: /^/, namespace: 'node-once' }, ({ path: name }) => ({
      contents: [
        `const all = process.getBuiltinModule('${name}'); export default all;`,
        ...Object.keys(requireHere(name))
          .filter((key) => key !== 'default')
          .map((key) => `export const ${key} = /* @__PURE__ */ (() => all.${key})();`),
      ].join('\n'),
    }));
  },
};

/** What `capture report` writes around its data: for a browser, with the library that plots. */
async function reportPage() {
  const dir = 'src/array/report/page';
  const { outputFiles } = await build({
    entryPoints: [`${dir}/main.ts`, `${dir}/style.css`],
    outdir,
    write: false,
    bundle: true,
    // A module waits for its data; these browsers unpack them (DecompressionStream).
    format: 'esm',
    platform: 'browser',
    target: ['chrome100', 'firefox113', 'safari16.4'],
    minify: true,
    legalComments: 'none',
    // The MIT license of what is copied into each page.
    banner: { js: `/*! uPlot\n${readFileSync('node_modules/uplot/LICENSE', 'utf8')}*/` },
  });
  const [script, style] = ['.js', '.css'].map((ending) =>
    outputFiles.find(({ path: name }) => name.endsWith(ending)).text.trim(),
  );
  return { markup: readFileSync(`${dir}/page.html`, 'utf8'), style, script };
}

function templates() {
  const texts = Object.entries(TEMPLATES).map(([name, file]) => [
    name,
    readFileSync(path.join('examples', file), 'utf8'),
  ]);
  return Object.fromEntries(texts);
}

/** Texts: esbuild would put an object into a file that all others load. */
const DEFINE = {
  REPORT_PAGE: JSON.stringify(JSON.stringify(await reportPage())),
  JOB_TEMPLATES: JSON.stringify(JSON.stringify(templates())),
  CAPTURE_VERSION: JSON.stringify(version),
  CAPTURE_ROOT: JSON.stringify('..'),
};

/** As Node runs it, and as somebody can read it. */
const READABLE = {
  outdir,
  write: false,
  bundle: true,
  platform: 'node',
  target: 'node20',
  // Of a package's two forms the one whose unused parts can be left out.
  mainFields: ['module', 'main'],
  legalComments: 'none',
  sourcemap: 'linked',
  sourcesContent: false,
};
const PLUGINS = [onDemand, nothingElse, ...(failpoint === undefined ? [] : [armed])];

/** `import.meta.url` of a script. */
const URL_OF_FILE = "const captureUrl = require('node:url').pathToFileURL(__filename).href;";

/** Each alone, with all that it needs. */
function scripts(entryPoints, { imports = false } = {}) {
  return build({
    ...READABLE,
    entryPoints,
    format: 'cjs',
    // What native/compiled.ts runs can only require().
    supported: { 'dynamic-import': imports },
    outExtension: { '.js': '.cjs' },
    plugins: [...PLUGINS, nodeOnce],
    define: { ...DEFINE, 'import.meta.url': 'captureUrl', 'import.meta.filename': '__filename' },
    ...(imports ? {} : { banner: { js: URL_OF_FILE } }),
  });
}

/** In common files, what they share. */
function modules(entryPoints) {
  return build({
    ...READABLE,
    entryPoints,
    splitting: true,
    format: 'esm',
    outExtension: { '.js': '.mjs' },
    chunkNames: 'shared-[hash]',
    plugins: PLUGINS,
    define: DEFINE,
    banner: { js: REQUIRE },
  });
}

/** By their names in dist/. */
const named = (programs) =>
  Object.fromEntries(Object.entries(programs).map(([name, entry]) => [`${name}-program`, entry]));

/** All files of JavaScript, and their maps. */
async function programs() {
  const built = await Promise.all([
    scripts(FIRST_FILES, { imports: true }),
    scripts({ ...named(COMPILED), ...named(PROCESSES), worker: 'src/read/worker.ts', ...ON_DEMAND }),
    modules(named(SPLIT)),
    modules(LIBRARY),
  ]);
  return built
    .flatMap(({ outputFiles }) => outputFiles)
    .map(({ path: file, text }) => [path.basename(file), text]);
}

/**
 * What V8 makes of the scripts in two runs, by name: an array of one short task, and that task alone. A program that
 * cannot run here is built without: its starts take longer.
 */
function compiledByRuns(files) {
  mkdirSync('node_modules/.cache', { recursive: true });
  const root = mkdtempSync(path.resolve('node_modules/.cache/capture-build-'));
  // Where the native packages are found.
  symlinkSync('../..', path.join(root, 'node_modules'));
  const dir = path.join(root, 'dist');
  try {
    mkdirSync(path.join(dir, 'work'), { recursive: true });
    for (const [name, text] of files) writeFileSync(path.join(dir, name), text);
    writeFileSync(path.join(dir, 'keep.cjs'), KEEP);
    const options = ['--results', 'r.dat', '--checkpoints', 'k.chk'];
    // The run of one task comes last: what it makes of the launcher and the sidecar is kept.
    runHere(dir, ['many.cjs', 'array', '--to', '../of-array', ...options, '--array', '0', '--scratch', dir]);
    runHere(dir, ['capture.cjs', '--to', '../store', ...options]);
    const kept = (name) => path.join(dir, `${name}-program.kept`);
    return Object.keys(COMPILED)
      .filter((name) => existsSync(kept(name)))
      .map((name) => [`${name}-program`, readFileSync(kept(name))]);
  } finally {
    rmSync(root, { recursive: true });
  }
}

/**
 * Loaded before a program of such a run: writes at its end what V8 has made of it. The code carries the flags of that
 * moment, so those that the program sets stay away, but for sizes of the heap; and its name, so that is no path.
 */
const KEEP = `
const fs = require('node:fs'), path = require('node:path'), v8 = require('node:v8'), vm = require('node:vm');
const setFlags = v8.setFlagsFromString;
v8.setFlagsFromString = (flag) => flag.endsWith('-space-size=0') && setFlags(flag);
const { Script } = vm;
vm.Script = class {
  constructor(text, { filename }) {
    // A copy: as a part of the path V8 would write the whole path.
    const name = Buffer.from(path.basename(filename)).toString();
    const script = new Script(text, { filename: name });
    process.once('exit', () => fs.writeFileSync(filename.replace(/cjs$/, 'kept'), script.createCachedData()));
    return script;
  }
};`;

function runHere(dir, [program, ...args]) {
  const { status, stderr } = spawnSync(process.execPath, [path.join(dir, program), ...args, '--', 'true'], {
    cwd: path.join(dir, 'work'),
    env: { ...process.env, NODE_OPTIONS: `--require=${JSON.stringify(path.join(dir, 'keep.cjs'))}` },
    encoding: 'utf8',
  });
  if (status !== 0)
    process.stderr.write(`build: starts will take longer, a run here ended with ${status}: ${stderr}`);
}

/**
 * What V8 makes of all functions of a script: too much of a large one, most of whose functions are never called. For what
 * the first result waits for, and the runs of the build do not load.
 */
function compiledWhole(name, source) {
  v8.setFlagsFromString('--no-lazy');
  const script = new vm.Script(asFunction(source), { filename: `${name}.cjs` });
  // V8 takes it only with the flags that stand when it is written.
  v8.setFlagsFromString('--lazy');
  return script.createCachedData();
}

/** As native/compiled.ts does it. */
function asFunction(source) {
  return `(function (exports, require, module, __filename, __dirname) {${source}\n})`;
}

/** The form that native/compiled.ts reads. */
function withHeader(source, code) {
  const header = { compiledBy: `${process.version} ${process.arch}`, crc32: [crc32(source), crc32(code)] };
  return Buffer.concat([Buffer.from(`${JSON.stringify(header)}\n`), code]);
}

mkdirSync(outdir, { recursive: true });
const stale = new Set(readdirSync(outdir));
/** At once: a capture that runs from here finds the old file or the new one. */
function put(name, content) {
  const file = path.join(outdir, name);
  writeFileSync(`${file}.new`, content);
  renameSync(`${file}.new`, file);
  stale.delete(name);
}

/** Man pages and completions, by a program that is not part of capture. */
async function putManual() {
  const { outputFiles } = await esbuild({
    ...READABLE,
    entryPoints: { manual: 'packaging/manual/manual.ts' },
    sourcemap: false,
    format: 'esm',
    outExtension: { '.js': '.mjs' },
    plugins: PLUGINS,
    define: DEFINE,
    banner: { js: REQUIRE },
  });
  const dir = mkdtempSync(path.resolve('node_modules/.cache/capture-manual-'));
  try {
    const program = path.join(dir, 'manual.mjs');
    writeFileSync(program, outputFiles[0].text);
    const { manual } = await import(program);
    for (const [file, text] of manual()) {
      const full = path.join(dir, 'share', file);
      mkdirSync(path.dirname(full), { recursive: true });
      writeFileSync(full, text);
    }
    replaceDirectory(path.join(dir, 'share'), 'share');
  } finally {
    rmSync(dir, { recursive: true });
  }
}

/** At once, as far as a directory can be. */
function replaceDirectory(from, name) {
  const to = path.join(outdir, name);
  rmSync(`${to}.new`, { recursive: true, force: true });
  cpSync(from, `${to}.new`, { recursive: true });
  rmSync(to, { recursive: true, force: true });
  renameSync(`${to}.new`, to);
  stale.delete(name);
}

/** The types of the library. */
function putTypes() {
  const dir = mkdtempSync(path.resolve('node_modules/.cache/capture-types-'));
  try {
    execFileSync('node_modules/.bin/tsc', ['-p', 'src/library', '--outDir', path.join(dir, 'types')], {
      stdio: 'inherit',
    });
    replaceDirectory(path.join(dir, 'types'), 'types');
  } finally {
    rmSync(dir, { recursive: true });
  }
}

/** bull-board's page as we serve it: nothing comes from the internet, and an error keeps its lines. */
function boardPage(page) {
  const fonts = /<link href="https:[^>]*>\n?/;
  const mended = page.replace(fonts, '<style>.error { white-space: pre-wrap }</style>\n');
  if (mended === page || /(?:href|src)="(?:https?:)?\/\//.test(mended))
    throw new Error('index.ejs of @bull-board/ui is not what it was: see what it loads from elsewhere');
  return mended;
}

/** The page of `capture queue ui`: files for a browser, as their package ships them. */
function putBoard() {
  const from = path.dirname(requireHere.resolve('@bull-board/ui/package.json'));
  const dir = mkdtempSync(path.resolve('node_modules/.cache/capture-board-'));
  try {
    cpSync(path.join(from, 'dist'), path.join(dir, 'board/dist'), { recursive: true });
    const page = path.join(dir, 'board/dist/index.ejs');
    writeFileSync(page, boardPage(readFileSync(page, 'utf8')));
    replaceDirectory(path.join(dir, 'board'), 'board');
  } finally {
    rmSync(dir, { recursive: true });
  }
}

const files = new Map(await programs());
// With a failpoint of the crash tests a run would not end well.
const compiled = new Map(failpoint === undefined ? compiledByRuns(files) : []);
for (const name of Object.keys(DRIVERS)) compiled.set(name, compiledWhole(name, files.get(`${name}.cjs`)));
for (const [name, text] of files) put(name, text);
for (const [name, code] of compiled) put(`${name}.v8`, withHeader(files.get(`${name}.cjs`), code));
putBoard();
await putManual();
putTypes();
put(
  'THIRD-PARTY-NOTICES',
  `capture contains these packages, each under the licence that stands below its name.

${noticesOf([...packagesIn(metafiles), 'node_modules/@bull-board/ui'])}
The page of @bull-board/ui contains these:

${boardUiNotices()}`,
);

// Only now: a capture that runs from here must not lose its program in between.
for (const name of stale) rmSync(path.join(outdir, name), { recursive: true });
