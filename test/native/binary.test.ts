// What the programs of dist/ load beside Node: themselves, and three binaries of their own installation.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { countOpens } from '../support/opens.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

const PROGRAMS = fs.readdirSync('dist').filter((name) => /\.[cm]js$/.test(name));
/** With what its binary is found by. */
const INSTALLED = [
  'koffi',
  '@koromix',
  'zstd-napi/package.json',
  'zstd-napi/build/Release/binding.node',
  '@parcel',
];
/** All that some bundled package asks for if it is there, and what the packages with binaries ask for. */
const ASKED_FOR = [
  '@aws-sdk/signature-v4-crt',
  '@aws-sdk/signature-v4a',
  '@bull-board/ui',
  '@valkey/valkey-glide',
  'cpu-features',
  'detect-libc',
  'is-glob',
  'msgpackr-extract',
  'pg',
  'picomatch',
  'pino',
  'supports-color',
];

let dir: TestDir;
let home: string;
beforeEach(() => {
  dir = testDir();
  home = path.join(dir.path, 'home');
});
afterEach(() => dir.remove());

function copy(from: string, to: string): void {
  fs.cpSync(from, to, { recursive: true });
}

/** `root`: where package.json goes. */
function install(root: string): void {
  for (const name of ['bin', 'dist', 'package.json']) copy(name, path.join(root, name));
}

/** The packages with binaries, into a directory of packages. */
function installPackages(into: string): void {
  for (const name of INSTALLED) copy(path.join('node_modules', name), path.join(into, name));
}

/** Packages that leave a mark when they are run, and the real ones with their binaries. */
function plant(into: string): void {
  installPackages(into);
  for (const name of [...ASKED_FOR, 'koffi', 'zstd-napi', '@parcel/watcher'])
    fs.mkdirSync(path.join(into, name), { recursive: true });
  const run = `require('node:fs').writeFileSync(${JSON.stringify(path.join(dir.path, 'was-run'))}, __filename)`;
  for (const name of [...ASKED_FOR, 'koffi', 'zstd-napi', '@parcel/watcher']) {
    fs.writeFileSync(path.join(into, name, 'package.json'), JSON.stringify({ name, main: 'index.js' }));
    for (const file of ['index.js', 'binding.js']) fs.writeFileSync(path.join(into, name, file), run);
  }
}

/** Its exit status and all that it says. */
async function run(command: readonly [string, ...string[]], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const [file, ...args] = command;
  const cwd = path.join(dir.path, 'work');
  fs.mkdirSync(cwd, { recursive: true });
  const all = { PATH: process.env['PATH'], HOME: home, CAPTURE_NODE: process.execPath, ...env };
  return new Promise((resolve) => {
    execFile(file, args, { cwd, env: all }, (error, stdout, stderr) =>
      resolve(`${error?.code ?? 0} ${stdout}${stderr}`),
    );
  });
}

const runTask = (root: string): Promise<string> =>
  run([path.join(root, 'bin/capture'), '--to', path.join(dir.path, 'store'), '-r', 'r.dat', '--', 'true']);

describe.each([
  ['without the packages with binaries', () => undefined],
  ['with them', (root: string) => installPackages(path.join(root, 'node_modules'))],
])('an installation %s', (_, finish) => {
  it('loads nothing from directories above it, from NODE_PATH and from the home directory', async () => {
    const root = path.join(dir.path, 'above/opt/capture');
    install(root);
    finish(root);
    const fromVariable = path.join(dir.path, 'node-path');
    const planted = [
      path.join(dir.path, 'node_modules'),
      path.join(dir.path, 'above/opt/node_modules'),
      path.join(root, 'dist/node_modules'),
      path.join(home, '.node_modules'),
      fromVariable,
    ];
    planted.forEach(plant);
    const opens = planted.map(countOpens);
    const env = { NODE_PATH: fromVariable };
    for (const name of PROGRAMS) await run([process.execPath, path.join(root, 'dist', name)], env);
    const capture = path.join(root, 'bin/capture');
    await run([capture, 'doctor'], env);
    await run([capture, 'queue', 'status', '--queue', 'redis+unix:///nowhere/redis.sock?name=lab'], env);
    await run(
      [capture, '--to', path.join(dir.path, 'store'), '-r', 'r.dat', '--', 'sh', '-c', 'seq 9999 >r.dat'],
      env,
    );
    expect(opens.flatMap((taken) => taken())).toEqual([]);
    expect(dir.has('was-run')).toBe(false);
  });
});

it('capture runs with its packages below it, beside it as npm puts them, or behind links as pnpm does', async () => {
  const below = path.join(dir.path, 'below');
  install(below);
  installPackages(path.join(below, 'node_modules'));

  const beside = path.join(dir.path, 'project/node_modules/capture-sidecar');
  install(beside);
  installPackages(path.dirname(beside));

  const packages = path.join(dir.path, 'pnpm/.pnpm');
  const linked = path.join(packages, 'capture-sidecar@1/node_modules/capture-sidecar');
  install(linked);
  copy('node_modules/koffi', path.join(packages, 'koffi@3/node_modules/koffi'));
  copy('node_modules/@koromix', path.join(packages, 'koffi@3/node_modules/@koromix'));
  fs.symlinkSync('../../koffi@3/node_modules/koffi', path.join(path.dirname(linked), 'koffi'));

  for (const root of [below, beside, linked]) expect(await runTask(root), root).toMatch(/^0 /);
});

it('an installation without its packages says so, and what to do', async () => {
  install(path.join(dir.path, 'bare'));
  expect(await runTask(path.join(dir.path, 'bare'))).toMatch(
    /^70 [^]*cannot load koffi: no binary of it is in .*bare\/node_modules\n {2}try: install capture again/,
  );
});

it('a damaged binary is named, and not the one for another libc that is beside it', async () => {
  const root = path.join(dir.path, 'damaged');
  install(root);
  installPackages(path.join(root, 'node_modules'));
  const binaries = path.join(root, 'node_modules/@koromix', `koffi-linux-${process.arch}`);
  fs.writeFileSync(path.join(binaries, `linux_${process.arch}/koffi.node`), '');
  expect(await runTask(root)).toMatch(
    /^70 [^]*cannot load koffi: .*koffi\.node: file too short\n {2}try: install/,
  );
});

it('a program without one of its files names it, and is no bug to report', async () => {
  const root = path.join(dir.path, 'incomplete');
  install(root);
  installPackages(path.join(root, 'node_modules'));
  fs.rmSync(path.join(root, 'dist/s3.cjs'));
  const env = { AWS_ACCESS_KEY_ID: 'key', AWS_SECRET_ACCESS_KEY: 'secret', AWS_REGION: 'eu-central-1' };
  expect(await run([path.join(root, 'bin/capture'), 'status', 's3://bucket/prefix'], env)).toMatch(
    /^70 .*the installation is incomplete: Cannot find module '.*s3\.cjs'\n {2}try: install capture again[^\n]*\n$/,
  );
});

describe.each([
  ['is missing', (file: string) => fs.rmSync(file)],
  ['is empty', (file: string) => fs.truncateSync(file)],
])('a file of the sidecar that %s', (_, damage) => {
  const incomplete =
    /^70 \S+ capture: the installation is incomplete: .*sidecar\.cjs is missing or empty\n {2}try: install capture again[^\n]*\n$/;

  it('is named in one line, and what to do', async () => {
    const root = path.join(dir.path, 'incomplete');
    install(root);
    installPackages(path.join(root, 'node_modules'));
    damage(path.join(root, 'dist/sidecar.cjs'));
    expect(await runTask(root)).toMatch(incomplete);
    const to = ['--to', path.join(dir.path, 'store'), '--scratch', dir.path, '-r', 'r.dat'];
    const array = [path.join(root, 'bin/capture'), 'array', '--array', '0-1', ...to, '--', 'true'] as const;
    expect(await run(array)).toMatch(incomplete);
  });

  it('is no doubt about the node, if it is that of the program', async () => {
    const root = path.join(dir.path, 'incomplete');
    install(root);
    installPackages(path.join(root, 'node_modules'));
    damage(path.join(root, 'dist/sidecar-program.cjs'));
    expect(await runTask(root)).toMatch(
      /^70 capture: .*sidecar-program\.cjs is damaged: [^\n]*\(try: install capture again\)\n[^\n]*\(exit 70\)[^\n]*\n {2}try: see the message before this one\n$/,
    );
  });
});

it('the doctor of an installation without its packages goes on, and says once what it cannot check', async () => {
  const root = path.join(dir.path, 'bare');
  install(root);
  const said = await run([path.join(root, 'bin/capture'), 'doctor', path.join(dir.path, 'store')]);
  expect(said).toMatch(/^1 OK {3}system: /);
  expect(said.split('cannot load koffi')).toHaveLength(2);
  expect(said).toContain(
    ': no task starts, and inotify, leases and a store that is a directory cannot be checked\n',
  );
  for (const check of ['work directory', 'spool', 'memory', 'scheduler', 'notices', 'place'])
    expect(said).toMatch(new RegExp(`^(OK|WARN) +${check}: `, 'm'));
  expect(said).toMatch(/, 1 failure\n$/);
  expect(fs.readdirSync(path.join(dir.path, 'work'))).toEqual([]);
});

it('no program holds a path of the machine that built it', () => {
  const files = fs
    .readdirSync('dist', { recursive: true, withFileTypes: true })
    .flatMap((entry) => (entry.isFile() ? [path.join(entry.parentPath, entry.name)] : []));
  const paths = [
    ...['src', 'node_modules', 'dist', 'build.mjs'].map((name) => path.resolve(name)),
    'capture-build-',
  ];
  expect(files.length).toBeGreaterThan(20);
  for (const file of files) {
    const bytes = fs.readFileSync(file);
    // As V8 keeps strings: with one byte for a character, or with two.
    for (const text of paths)
      for (const encoding of ['latin1', 'utf16le'] as const)
        expect(bytes.indexOf(text, 0, encoding), `${file}: ${text}`).toBe(-1);
  }
});

it.each([
  ['package-lock.json', 100],
  ['packaging/reference/package-lock.json', 20],
  ['packaging/site/package-lock.json', 100],
])('npm takes no other bytes for a package of %s, and takes each from the registry', (file, least) => {
  const { packages } = JSON.parse(fs.readFileSync(file, 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly resolved?: string; readonly integrity?: string }>>;
  };
  const entries = Object.entries(packages).filter(([name]) => name !== '');
  expect(entries.length).toBeGreaterThan(least);
  for (const [name, { resolved, integrity }] of entries) {
    // Left out for those of the registry (.npmrc): a path or a URL of its own would stand here.
    expect(resolved, name).toBeUndefined();
    if (!isForAnotherMachine(name)) expect(integrity, name).toMatch(/^sha512-/);
  }
});

/** Of these the registry that wrote the lock file had no bytes. No program loads them, and nothing installs them on x64. */
function isForAnotherMachine(name: string): boolean {
  return /^node_modules\/@msgpackr-extract\/msgpackr-extract-(darwin|win32|linux-arm$)/.test(name);
}
