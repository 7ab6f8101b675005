// One large file through a worker, beside zstd alone at the same level on the same bytes: time, CPU and memory.
// Usage: node bench/worker.mjs [MiB] [level]. Take the ratio; the absolute figures are the machine's.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import zstd from 'zstd-napi/binding.js';

const [sizeMiB = 1024, level = 1] = process.argv.slice(2).map(Number);
const ROUNDS = 3;
const MiB = 2 ** 20;
const project = fileURLToPath(new URL('..', import.meta.url));
const out = path.join(project, 'node_modules/.cache/capture-bench');
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-bench-'));
const file = path.join(dir, 'k.chk');

await bundle();
writeFloats(file, sizeMiB);
const { openWorkers } = await import(path.join(out, 'workers.mjs'));
const fd = fs.openSync(dir, 'r');
const workers = openWorkers({
  root: { fd, path: dir },
  count: 2,
  entry: path.join(out, 'worker.mjs'),
  spoolLimitBytes: 0,
});
// Made once, so that the rounds of zstd alone add nothing to the memory of the next round.
const context = new zstd.CCtx();
const input = new Uint8Array(MiB);
const output = new Uint8Array(2 * MiB);
zstdAlone();
const idleMiB = rssMiB();
try {
  for (let round = 1; round <= ROUNDS; round += 1) {
    const worker = await measured(throughWorker);
    const alone = await measured(async () => zstdAlone());
    console.log(
      `round ${round}: worker ${worker.text}; zstd-${level} alone ${alone.text}; ` +
        `the worker's speed is ${((100 * alone.seconds) / worker.seconds).toFixed(0)} % of zstd's; ` +
        `resident ${idleMiB} MiB before, at most ${worker.peakMiB} MiB`,
    );
  }
} finally {
  await workers.close();
  fs.rmSync(dir, { recursive: true });
}

async function throughWorker() {
  const compression = { kind: 'zstd', level };
  const body = await workers.read({ path: 'k.chk', compression, spoolFirst: false });
  for await (const part of body.parts) body.parts.release(part);
  return (await body.done).storedBytes;
}

/** What no reading can beat on one thread: the same bytes, the same level, no md5, no parts, no proof. */
function zstdAlone() {
  context.reset(zstd.ResetDirective.sessionAndParameters);
  context.setParameter(zstd.CParameter.compressionLevel, level);
  context.setParameter(zstd.CParameter.checksumFlag, 1);
  context.setPledgedSrcSize(sizeMiB * MiB);
  const source = fs.openSync(file, 'r');
  let storedBytes = 0;
  for (let n = 1; n <= sizeMiB; n += 1) {
    fs.readSync(source, input);
    const end = n === sizeMiB ? zstd.EndDirective.end : zstd.EndDirective.continue;
    storedBytes += context.compressStream2(output, input, end)[1];
  }
  fs.closeSync(source);
  return storedBytes;
}

async function measured(run) {
  let peakMiB = rssMiB();
  const watch = setInterval(() => (peakMiB = Math.max(peakMiB, rssMiB())), 10);
  const startMs = performance.now();
  const startCpu = process.cpuUsage();
  const storedBytes = await run();
  const { user, system } = process.cpuUsage(startCpu);
  const seconds = (performance.now() - startMs) / 1000;
  clearInterval(watch);
  const text =
    `${(sizeMiB / seconds).toFixed(0)} MiB/s, ${((user + system) / 1e6).toFixed(2)} CPU-s, ` +
    `ratio ${((sizeMiB * MiB) / storedBytes).toFixed(2)}`;
  return { seconds, peakMiB, text };
}

function rssMiB() {
  return Math.round(process.memoryUsage.rss() / MiB);
}

/** Float64 of limited precision, as a simulation writes them. */
function writeFloats(name, count) {
  const target = fs.openSync(name, 'w');
  const values = new Float64Array(MiB / 8);
  let value = 0;
  for (let n = 0; n < count; n += 1) {
    for (let i = 0; i < values.length; i += 1) {
      value += Math.sin(n * 131 + i * 1e-3);
      values[i] = Math.round(value * 100) / 128;
    }
    fs.writeSync(target, values);
  }
  fs.closeSync(target);
}

async function bundle() {
  await build({
    absWorkingDir: project,
    entryPoints: ['src/read/worker.ts', 'src/read/workers.ts'],
    outdir: out,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    external: ['koffi', 'zstd-napi'],
    banner: {
      js: "import { createRequire as captureCreateRequire } from 'node:module'; const require = captureCreateRequire(import.meta.url);",
    },
  });
}
