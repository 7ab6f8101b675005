// Builds the program in dist/: thousands of array tasks start at once on one shared file system, and every file that
// is not opened there is a metadata request saved. So each process is one program, with all that its start needs; what
// only some runs need is a program of its own, loaded on first use. The packages that carry binaries stay
// outside: they alone are dependencies in package.json, some optional; what is bundled is a devDependency.
import { spawnSync } from 'node:child_process';
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
  const missing = outsideImports(result.metafile).filter((name) => !WITHOUT.includes(name));
  if (missing.length > 0)
    throw new Error(
      `no program finds ${missing.join(', ')}: bundle it, or say WITHOUT that it is not needed`,
    );
  return result;
}

/** What a bundle asks for that is neither in it, nor a module of Node, nor another program of ours. */
function outsideImports({ outputs }) {
  return Object.values(outputs)
    .flatMap(({ imports }) => imports)
    .filter(({ path: name, external }) => external && !isBuiltin(name) && !name.endsWith('.code'))
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
/** Each of them is a process, or a thread of one: native/first.ts is its first file, or one of its own. */
const PROCESSES = {
  capture: 'src/cli/main.ts',
  flush: 'src/cli/flush-main.ts',
  sidecar: 'src/sidecar/main.ts',
  worker: 'src/read/worker.ts',
  array: 'src/array/main.ts',
  many: 'src/many/main.ts',
  queue: 'src/many/queue/main.ts',
};
/** What `capture template` prints: examples, which the tests run. */
const TEMPLATES = {
  array: 'jobs/array.yaml',
  queue: 'jobs/queue.yaml',
  slurm: 'slurm/array.sbatch',
  kubernetes: 'kubernetes/native-sidecar.yaml',
  'aws-batch': 'aws-batch/job-definition.yaml',
};
const FIRST_FILES = { capture: 'src/cli/first.ts' };
const ON_DEMAND = {
  standalone: 'src/cli/standalone.ts',
  job: 'src/cli/job/job-line.ts',
  log: 'src/log/log.ts',
  doctor: 'src/doctor/doctor.ts',
  report: 'src/array/report/template.ts',
  board: 'src/many/queue/board-server.ts',
  metrics: 'src/metrics/metrics.ts',
  notify: 'src/notify/notify.ts',
  'wasm-md5': 'src/model/wasm-md5.ts',
  ...DRIVERS,
  // The AWS SDK's sources of credentials.
  credentials: 'src/store/s3/credentials.ts',
  // Its client for S3, and lib-storage.
  sdk: 'src/store/s3/sdk.ts',
};
/**
 * What bundled packages can use if it is there: other engines, binaries that pack faster, colours. A program finds none of
 * them, whatever is installed around it (native/program.ts).
 */
const WITHOUT = [
  '@aws-sdk/signature-v4-crt',
  '@aws-sdk/signature-v4a',
  '@valkey/valkey-glide',
  'msgpackr-extract',
  'pg',
  'supports-color',
];
/** What a task, or its first result, may wait for, and the run of the build does not load: compiled as a whole. */
const WHOLE = ['worker', ...Object.keys(DRIVERS)];
const PROGRAMS = { ...PROCESSES, ...ON_DEMAND };

const armed = {
  name: 'failpoint',
  setup: ({ onResolve }) =>
    onResolve({ filter: /\/native\/failpoint\.ts$/ }, () => ({ path: path.resolve(failpoint) })),
};
/** An import() of what is on demand is one of its program. */
const onDemand = {
  name: 'on-demand',
  setup: ({ onResolve }) =>
    onResolve({ filter: /^\./ }, ({ path: asked, kind, resolveDir }) => {
      if (kind !== 'dynamic-import') return undefined;
      const file = path.relative(fileURLToPath(new URL('.', import.meta.url)), path.join(resolveDir, asked));
      const name = Object.keys(ON_DEMAND).find((one) => ON_DEMAND[one] === file);
      return name === undefined ? undefined : { path: `./${name}.code`, external: true };
    }),
};

/**
 * Each module of Node is one module of a program. As an outside import esbuild copies all its names for each file that
 * imports it: 8 ms of the sidecar's start. What a file does not import is left out.
 */
const nodeOnce = {
  name: 'node-once',
  setup: ({ onResolve, onLoad }) => {
    onResolve({ filter: /^node:/ }, ({ path: name, kind }) =>
      kind === 'import-statement' ? { path: name, namespace: 'node-once', sideEffects: false } : undefined,
    );
    onLoad({ filter: /^/, namespace: 'node-once' }, ({ path: name }) => ({
      contents: [
        `const all = require('${name}'); export default all;`,
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

/** The text of a program, or of the first file of a process. */
async function bundled(entry, define) {
  const { outputFiles } = await build({
    entryPoints: [entry],
    write: false,
    plugins: [onDemand, nodeOnce, ...(failpoint === undefined ? [] : [armed])],
    bundle: true,
    // V8 keeps what it has compiled of a script, and not of a module (native/program.ts).
    format: 'cjs',
    supported: { 'dynamic-import': false },
    platform: 'node',
    target: 'node20',
    // Of a package's two forms the one whose unused parts can be left out.
    mainFields: ['module', 'main'],
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: 'none',
    external: WITHOUT,
    define: { ...define, CAPTURE_ROOT: JSON.stringify('..') },
  });
  return outputFiles[0].text;
}

/** What follows, the source, and what V8 has made of it: the form that native/program.ts reads. */
function programFile(source, compiled = Buffer.alloc(0)) {
  const text = Buffer.from(source, 'latin1');
  const header = {
    sourceBytes: text.length,
    compiledBy: `${process.version} ${process.arch}`,
    crc32: crc32(Buffer.concat([text, compiled])),
  };
  return Buffer.concat([Buffer.from(`${JSON.stringify(header)}\n`), text, compiled]);
}

async function sourceOf(entry) {
  const text = await bundled(entry, {
    ...(entry === ON_DEMAND.report ? { REPORT_PAGE: JSON.stringify(await reportPage()) } : {}),
    ...(entry === PROCESSES.many ? { JOB_TEMPLATES: JSON.stringify(templates()) } : {}),
    CAPTURE_VERSION: JSON.stringify(version),
    'import.meta.url': 'captureUrl',
  });
  return `(function(exports,require,module,__filename,__dirname){"use strict";const captureUrl=require("node:url").pathToFileURL(__filename).href;${text}\n})`;
}

/** The first file of a process; `keepsCode` only for the runs of this build. */
function firstFile(name, keepsCode) {
  return bundled(FIRST_FILES[name] ?? 'src/native/first.ts', {
    CAPTURE_KEEPS_CODE: String(keepsCode),
    'import.meta.filename': '__filename',
  });
}

/**
 * What V8 makes of the programs in two runs, by name: an array of one short task, and that task alone. A program that
 * cannot run here is built without: its starts take longer.
 */
async function compiledByRuns(sources) {
  mkdirSync('node_modules/.cache', { recursive: true });
  const root = mkdtempSync(path.resolve('node_modules/.cache/capture-build-'));
  // Where the native packages are found.
  symlinkSync('../..', path.join(root, 'node_modules'));
  const dir = path.join(root, 'dist');
  try {
    mkdirSync(dir);
    for (const name of Object.keys(PROCESSES))
      writeFileSync(path.join(dir, `${name}.cjs`), await firstFile(name, true));
    for (const [name, source] of Object.entries(sources))
      writeFileSync(path.join(dir, `${name}.code`), programFile(source));
    mkdirSync(path.join(dir, 'work'));
    const files = ['--results', 'r.dat', '--checkpoints', 'k.chk'];
    // The run of one task comes last: what it makes of the launcher and the sidecar is kept.
    runHere(dir, ['many.cjs', 'array', '--to', '../of-array', ...files, '--array', '0', '--scratch', dir]);
    runHere(dir, ['capture.cjs', '--to', '../store', ...files]);
    const made = Object.keys(sources).filter((name) => existsSync(path.join(dir, `${name}.code.v8`)));
    return Object.fromEntries(made.map((name) => [name, readFileSync(path.join(dir, `${name}.code.v8`))]));
  } finally {
    rmSync(root, { recursive: true });
  }
}

function runHere(dir, [program, ...args]) {
  const { status, stderr } = spawnSync(process.execPath, [path.join(dir, program), ...args, '--', 'true'], {
    cwd: path.join(dir, 'work'),
    encoding: 'utf8',
  });
  if (status !== 0)
    process.stderr.write(`build: starts will take longer, a run here ended with ${status}: ${stderr}`);
}

/** What V8 makes of all functions of a program: too much of a large one, most of whose functions are never called. */
function compiledWhole(name, source) {
  v8.setFlagsFromString('--no-lazy');
  const script = new vm.Script(source, { filename: `${name}.code` });
  // V8 takes it only with the flags that stand when it is written.
  v8.setFlagsFromString('--lazy');
  return script.createCachedData();
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

/** The page of `capture queue ui`, as its package ships it: files for a browser. */
/** bull-board's page as we serve it: nothing comes from the internet, and an error keeps its lines. */
function boardPage(page) {
  const fonts = /<link href="https:[^>]*>\n?/;
  const mended = page.replace(fonts, '<style>.error { white-space: pre-wrap }</style>\n');
  if (mended === page || /(?:href|src)="(?:https?:)?\/\//.test(mended))
    throw new Error('index.ejs of @bull-board/ui is not what it was: see what it loads from elsewhere');
  return mended;
}

function putBoard() {
  const from = path.dirname(requireHere.resolve('@bull-board/ui/package.json'));
  const to = path.join(outdir, 'board.new');
  rmSync(to, { recursive: true, force: true });
  cpSync(path.join(from, 'dist'), path.join(to, 'dist'), { recursive: true });
  const page = path.join(to, 'dist', 'index.ejs');
  writeFileSync(page, boardPage(readFileSync(page, 'utf8')));
  rmSync(path.join(outdir, 'board'), { recursive: true, force: true });
  renameSync(to, path.join(outdir, 'board'));
  stale.delete('board');
}

const sources = Object.fromEntries(
  await Promise.all(Object.entries(PROGRAMS).map(async ([name, entry]) => [name, await sourceOf(entry)])),
);
// With a failpoint of the crash tests a run would not end well.
const compiled = failpoint === undefined ? await compiledByRuns(sources) : {};
for (const name of WHOLE) compiled[name] ??= compiledWhole(name, sources[name]);
for (const [name, source] of Object.entries(sources))
  put(`${name}.code`, programFile(source, compiled[name]));
for (const name of Object.keys(PROCESSES)) put(`${name}.cjs`, await firstFile(name, false));
putBoard();
put(
  'THIRD-PARTY-NOTICES',
  `capture contains these packages, each under the licence that stands below its name.

${noticesOf([...packagesIn(metafiles), 'node_modules/@bull-board/ui'])}
The page of @bull-board/ui contains these:

${boardUiNotices()}`,
);

// Only now: a capture that runs from here must not lose its program in between.
for (const name of stale) rmSync(path.join(outdir, name), { recursive: true });
