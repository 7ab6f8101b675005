// One large file through a worker thread, without a store: beside zstd-1 alone at the same moment, on the same bytes.
import fs from 'node:fs';
import path from 'node:path';
import zstd from 'zstd-napi/binding.js';
import { bundle } from '../lib/bundle.mjs';
import { MiB, blocks } from '../lib/content.mjs';
import { freshDir } from '../lib/running.mjs';

export const worker = {
  name: 'worker',
  title: 'One large file through a worker, beside zstd-1 alone',
  rounds: 3,
  tools: ['capture'],
  columns: [
    { key: 'mibPerS', title: 'MiB/s' },
    { key: 'aloneMibPerS', title: 'zstd-1 alone, MiB/s' },
    { key: 'speedPercent', title: 'speed, of that', unit: '%' },
    { key: 'cpuTimes', title: 'CPU, times that' },
  ],
  cases: (size) => {
    const mib = { tiny: 1, usual: 256, large: 1024 }[size];
    // What does not compress is sent as it is.
    return ['float64', 'text'].map((kind) => ({ name: `${mib} MiB, ${kind}`, kind, mib }));
  },
  measure: async ({ item: { kind, mib } }) => {
    const out = await bundle('src/read/worker.ts', 'src/read/workers.ts');
    const { openWorkers } = await import(path.join(out, 'workers.mjs'));
    const dir = freshDir();
    write(path.join(dir, 'k.chk'), { kind, seed: 1, sizeBytes: mib * MiB });
    const fd = fs.openSync(dir, 'r');
    const entry = path.join(out, 'worker.mjs');
    const workers = openWorkers({ root: { fd, path: dir }, count: 2, entry, spoolLimitBytes: 0 });
    try {
      // The first time starts a thread.
      await through(workers);
      const own = await timed(() => through(workers));
      const alone = await timed(() => zstdAlone(path.join(dir, 'k.chk')));
      return {
        mibPerS: mib / own.seconds,
        aloneMibPerS: mib / alone.seconds,
        speedPercent: (100 * alone.seconds) / own.seconds,
        cpuTimes: own.cpuS / alone.cpuS,
      };
    } finally {
      await workers.close();
      fs.closeSync(fd);
      fs.rmSync(dir, { recursive: true });
    }
  },
};

async function through(workers) {
  const compression = { kind: 'zstd', level: 1 };
  const body = await workers.read({ path: 'k.chk', compression, spoolFirst: false });
  for await (const part of body.parts) body.parts.release(part);
  await body.done;
}

/** What no reading can beat on one thread: the same bytes, no md5, no parts, no proof. */
function zstdAlone(file) {
  const context = new zstd.CCtx();
  const [input, output] = [new Uint8Array(MiB), new Uint8Array(2 * MiB)];
  context.setParameter(zstd.CParameter.compressionLevel, 1);
  const source = fs.openSync(file, 'r');
  for (;;) {
    const sizeBytes = fs.readSync(source, input);
    const end = sizeBytes === 0 ? zstd.EndDirective.end : zstd.EndDirective.continue;
    context.compressStream2(output, input.subarray(0, sizeBytes), end);
    if (sizeBytes === 0) break;
  }
  fs.closeSync(source);
}

async function timed(work) {
  const startMs = performance.now();
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return { seconds: (performance.now() - startMs) / 1000, cpuS: (user + system) / 1e6 };
}

function write(file, state) {
  const fd = fs.openSync(file, 'w');
  for (const block of blocks(state)) fs.writeSync(fd, block);
  fs.closeSync(fd);
}
