// A checkpoint rewritten in place every 3 s, ten times: how many of the ten contents are stored, whether any is
// torn or deleted under its writer, and what it costs; over a link that carries all of it, and over one that
// carries one in three. Usage: node bench/checkpoint.mjs [MiB], after `npm run build`. Takes a minute and a half.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import zstd from 'zstd-napi';
import { content, EVERY_MS } from './rewrite-in-place.mjs';

const sizeMiB = Number(process.argv[2] ?? 128);
const TIMES = 10;
const MiB = 2 ** 20;
const project = fileURLToPath(new URL('..', import.meta.url));
const out = path.join(project, 'node_modules/.cache/capture-bench');

const { startS3Server, startFaultProxy } = await bundle();
const versionOf = new Map(Array.from({ length: TIMES }, (_, n) => [md5(content(n + 1, sizeMiB)), n + 1]));
const alone = costAlone();
const free = await measured(undefined);
const third = (free.bytesPerContent / (3 * EVERY_MS)) * 1000;
const slow = await measured(third);
console.log(`${sizeMiB} MiB rewritten in place every ${EVERY_MS / 1000} s, ${TIMES} times`);
console.table({
  'a free link': row(free),
  [`a link that carries one in three (${(third / MiB).toFixed(1)} MiB/s)`]: row(slow),
});
console.log(
  `md5 and zstd-1 of one content alone: ${alone.toFixed(2)} CPU-s. "times that" is what capture's processes ` +
    'use for each stored content, with the upload, above it.',
);

function row({ versions, torn, deleted, status, cpuSeconds, waited }) {
  return {
    stored: `${versions.length} of ${TIMES}`,
    versions: versions.join(' '),
    torn,
    'deleted under the writer': deleted,
    'CPU-s each': (cpuSeconds / versions.length).toFixed(2),
    'times that': (cpuSeconds / versions.length / alone).toFixed(2),
    'most closes between two': waited,
    status,
  };
}

/** One run of ten; `bytesPerSecond` limits the link. */
async function measured(bytesPerSecond) {
  const server = await startS3Server();
  const proxy = await startFaultProxy(server.url);
  const dir = fs.mkdtempSync('/dev/shm/capture-bench-');
  try {
    if (bytesPerSecond !== undefined) proxy.fault = { kind: 'rate', bytesPerSecond };
    const task = [fileURLToPath(new URL('rewrite-in-place.mjs', import.meta.url)), sizeMiB, TIMES];
    const child = spawn(
      path.join(project, 'bin/capture'),
      ['--to', `s3://${server.bucket}/b`, '--path-style', '-k', 'k.chk', '--', process.execPath, ...task],
      {
        cwd: dir,
        env: { PATH: process.env.PATH, ...server.env, AWS_ENDPOINT_URL_S3: proxy.url },
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    const cpu = sampleCpu(child.pid);
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text) => (said += text));
    const [code, signal] = await once(child, 'close');
    const links = said
      .trim()
      .split('\n')
      .map((line) => Number(line.split(' ')[1]));
    return {
      ...judge(server),
      deleted: links.filter((n) => n === 0).length,
      status: code ?? signal,
      cpuSeconds: cpu(),
    };
  } finally {
    await proxy.stop();
    await server.stop();
    fs.rmSync(dir, { recursive: true });
  }
}

/** Every object that was ever visible against the ten contents that the task closed. */
function judge(server) {
  const keys = new Set(server.served.map(({ key }) => key).filter((key) => key.startsWith('b/k.chk.')));
  const objects = [...keys].flatMap((key) => server.versions(key).filter(({ bytes }) => bytes !== undefined));
  const found = objects.map(({ bytes }) => versionOf.get(md5([zstd.decompress(bytes)])));
  const versions = [...new Set(found.filter((version) => version !== undefined))].toSorted((a, b) => a - b);
  const gaps = versions.map((version, n) => version - (versions[n - 1] ?? 0));
  const storedBytes = objects.reduce((sum, { bytes }) => sum + bytes.length, 0);
  return {
    versions,
    torn: found.filter((version) => version === undefined).length,
    waited: Math.max(...gaps),
    bytesPerContent: storedBytes / objects.length,
  };
}

/** CPU seconds of the launcher and its sidecar, asked until they are gone: the task's own are not among them. */
function sampleCpu(launcher) {
  const ticks = new Map();
  const ask = () => {
    for (const pid of [launcher, sidecarOf(launcher)]) {
      try {
        const [, rest = ''] = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ');
        const fields = rest.split(' ');
        ticks.set(pid, Number(fields[11]) + Number(fields[12]));
      } catch {
        // It is gone: its last figure stands.
      }
    }
  };
  const timer = setInterval(ask, 50);
  return () => {
    clearInterval(timer);
    // proc(5): in clock ticks, 100 a second on Linux.
    return [...ticks.values()].reduce((sum, n) => sum + n, 0) / 100;
  };
}

function sidecarOf(launcher) {
  try {
    const children = fs.readFileSync(`/proc/${launcher}/task/${launcher}/children`, 'utf8').trim().split(' ');
    return children.find((pid) => fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('sidecar.mjs'));
  } catch {
    return undefined;
  }
}

/** What no capture can do without, on one thread. */
function costAlone() {
  const bytes = Buffer.concat([...content(1, sizeMiB)]);
  const start = process.cpuUsage();
  createHash('md5').update(bytes).digest();
  zstd.compress(bytes, { compressionLevel: 1 });
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1e6;
}

function md5(blocks) {
  const hash = createHash('md5');
  for (const block of blocks) hash.update(block);
  return hash.digest('hex');
}

async function bundle() {
  await build({
    absWorkingDir: project,
    entryPoints: ['test/s3-server/server.ts', 'test/support/fault-proxy.ts'],
    outdir: out,
    outbase: 'test',
    outExtension: { '.js': '.mjs' },
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
  });
  const { startS3Server } = await import(path.join(out, 's3-server/server.mjs'));
  const { startFaultProxy } = await import(path.join(out, 'support/fault-proxy.mjs'));
  return { startS3Server, startFaultProxy };
}
