// Makes archives that need nothing but Linux: a Node of their own, the program, the documentation, all licences.
// npm run standalone [-- --arch x64|arm64] [--to <directory>]: a .tar.zst, a .tar.gz, an SBOM, and their SHA-256 sums, in release/.
// Whoever unpacks one anywhere, also on a read-only file system, runs its bin/capture.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

const ROOT = path.resolve(import.meta.dirname, '..');
const { version, files } = readJson('package.json');
const { packages: locked } = readJson('package-lock.json');

/**
 * Node with long-term support, from the npm packages that hold its official binary. It has zstd itself: zstd-napi, whose
 * binary is compiled for the glibc of the machine that installs it, is not needed.
 */
const NODE = {
  version: '24.21.0',
  integrity: {
    x64: 'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
    arm64: 'sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
  },
};
/** Run by that Node: the one that runs this file may have no zstd. */
const PACK = `
const [{ createReadStream, createWriteStream }, { pipeline }] = [require('node:fs'), require('node:stream/promises')];
const { createGzip, createZstdCompress, constants } = require('node:zlib');
const tar = process.argv[1];
const packed = (packer, ending) => pipeline(createReadStream(tar), packer, createWriteStream(tar + ending));
packed(createGzip(), '.gz');
packed(createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: 12 } }), '.zst');
`;
/** As they are in the repository: what npm's package holds, without the sources. */
const COPIED = files.filter((file) => file !== 'dist' && file !== 'src');

const options = {
  arch: { type: 'string', default: process.arch },
  to: { type: 'string', default: 'release' },
};
const { arch, to: release } = parseArgs({ options }).values;
if (!(arch in NODE.integrity))
  throw new Error(`--arch ${arch}: one of ${Object.keys(NODE.integrity).join(', ')}`);

/** Of the packages whose binaries capture loads: the one for glibc, as Node's is, and whose licence it is under. */
const BINARIES = {
  [`@koromix/koffi-linux-${arch}`]: { of: `linux_${arch}/koffi.node`, licence: 'koffi/LICENSE.txt' },
  [`@parcel/watcher-linux-${arch}-glibc`]: { of: 'watcher.node', licence: '@parcel/watcher/LICENSE' },
};
const name = `capture-${version}-linux-${arch}`;
mkdirSync(release, { recursive: true });
const scratch = mkdtempSync(path.join(path.resolve(release), '.making-'));
try {
  const top = path.join(scratch, name);
  mkdirSync(top);
  for (const copied of COPIED) cpSync(path.join(ROOT, copied), path.join(top, copied), { recursive: true });

  const ownNode = fetchNode(arch);
  copyOf(ownNode, ['bin/node', 'LICENSE'], path.join(top, 'node'));

  for (const [binary, { of, licence }] of Object.entries(BINARIES)) {
    const { version: at, integrity } = locked[`node_modules/${binary}`];
    const to = path.join(top, 'node_modules', binary);
    copyOf(fetchPackage(binary, at, integrity), [of, 'package.json'], to);
    cpSync(path.join(ROOT, 'node_modules', licence), path.join(to, 'LICENSE'));
  }

  const dist = path.join(top, 'dist');
  const here = arch === process.arch ? ownNode : fetchNode(process.arch);
  // By the Node that will run it: it alone can use the code that V8 keeps, which another processor cannot.
  run(path.join(here, 'bin/node'), ['build.mjs', dist]);
  if (arch !== process.arch)
    for (const file of readdirSync(dist)) if (file.endsWith('.v8')) rmSync(path.join(dist, file));

  // Where man, bash and fish look, if bin/ is in PATH.
  symlinkSync('dist/share', path.join(top, 'share'));
  writeFileSync(path.join(top, 'sbom.cdx.json'), sbom(path.join(dist, 'THIRD-PARTY-NOTICES')));
  writeOut(top, path.join(here, 'bin/node'));
} finally {
  rmSync(scratch, { recursive: true });
}

function readJson(file) {
  return JSON.parse(readFileSync(path.join(ROOT, file), 'utf8'));
}

function run(command, args, options = {}) {
  return execFileSync(command, args, {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 1 << 28,
    ...options,
  });
}

function fetchNode(of) {
  return fetchPackage(`node-linux-${of}`, NODE.version, NODE.integrity[of]);
}

/** The directory of a package's files, which are exactly those that its integrity (SRI) names. */
function fetchPackage(of, at, integrity) {
  const dir = mkdtempSync(path.join(scratch, 'package-'));
  const [packed] = JSON.parse(
    run('npm', ['pack', `${of}@${at}`, '--json', '--prefer-offline', '--pack-destination', dir]),
  );
  const file = path.join(dir, readdirSync(dir)[0]);
  const found = `sha512-${digest('sha512', file, 'base64')}`;
  if (found !== integrity)
    throw new Error(`${packed.id} is not the one that was reviewed: ${found} instead of ${integrity}`);
  run('tar', ['-xzf', file, '-C', dir]);
  return path.join(dir, 'package');
}

function digest(algorithm, file, encoding) {
  return createHash(algorithm).update(readFileSync(file)).digest(encoding);
}

function copyOf(from, files, to) {
  for (const file of files) cpSync(path.join(from, file), path.join(to, file));
}

/** CycloneDX: Node, the packages with binaries and all that is bundled, as `npm sbom` describes them. */
function sbom(notices) {
  const all = JSON.parse(run('npm', ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only']));
  const known = new Map(all.components.map((one) => [one['bom-ref'], one]));
  const titles = readFileSync(notices, 'utf8').matchAll(/^((?:@[^\s/]+\/)?[^\s/]+) (\d\S*) \(([^)]+)\)$/gm);
  const inside = new Map(
    [...titles].map(([, of, at, licence]) => [`${of}@${at}`, component(of, at, licence)]),
  );
  for (const of of Object.keys(BINARIES)) {
    const { version: at, license } = locked[`node_modules/${of}`];
    inside.set(`${of}@${at}`, component(of, at, license));
  }
  inside.set(`node-linux-${arch}@${NODE.version}`, component(`node-linux-${arch}`, NODE.version, 'MIT'));

  const components = [...inside].map(([ref, described]) => known.get(ref) ?? described);
  const kept = new Set([all.metadata.component['bom-ref'], ...inside.keys()]);
  const dependencies = all.dependencies
    .filter(({ ref }) => kept.has(ref))
    .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((one) => kept.has(one)) }));
  return `${JSON.stringify({ ...all, components, dependencies }, null, 2)}\n`;
}

/** Of a package that `npm sbom` does not know: one inside of another, or a binary. */
function component(of, at, expression) {
  const purl = `pkg:npm/${of.replace('@', '%40')}@${at}`;
  return {
    'bom-ref': `${of}@${at}`,
    type: 'library',
    name: of,
    version: at,
    purl,
    licenses: [{ expression }],
  };
}

/** The archives of a directory: the same bytes for the same files. */
function writeOut(top, node) {
  const same = [
    '--sort=name',
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    '--mode=u+w,go-w,a+rX',
    '--mtime=@0',
  ];
  const tar = path.join(scratch, `${name}.tar`);
  run('tar', [...same, '-cf', tar, '-C', scratch, name]);
  run(node, ['-e', PACK, tar]);
  cpSync(path.join(top, 'sbom.cdx.json'), path.join(scratch, `${name}.sbom.cdx.json`));

  const made = [`${name}.tar.gz`, `${name}.tar.zst`, `${name}.sbom.cdx.json`];
  const sums = made.map((file) => `${digest('sha256', path.join(scratch, file), 'hex')}  ${file}\n`);
  for (const file of made) renameSync(path.join(scratch, file), path.join(release, file));
  writeFileSync(path.join(release, `${name}.sha256`), sums.join(''));
  process.stdout.write(made.map((file) => `${path.join(release, file)}\n`).join(''));
}
