// One large file through a worker thread, without a store: beside zstd-1 alone at the same moment, on the same bytes. And
// what each thing costs that no tool can leave out, alone: what all of them come to is the limit of `large`.
import { fork } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import zstd from 'zstd-napi/binding.js';
import { bundle } from '../lib/bundle.mjs';
import { MiB, blocks } from '../lib/content.mjs';
import { freshDir } from '../lib/running.mjs';

const RECEIVER = fileURLToPath(new URL('../lib/receiver.mjs', import.meta.url));

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
    { key: 'cpuS', title: 'CPU', unit: 's' },
    { key: 'readS', title: 'read alone', unit: 's' },
    { key: 'md5S', title: 'md5', unit: 's' },
    { key: 'zstdS', title: 'zstd-1', unit: 's' },
    { key: 'sha256S', title: 'SHA-256 of what is stored, for the signature', unit: 's' },
    { key: 'sendS', title: 'its send over loopback', unit: 's' },
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
    const workers = openWorkers({
      root: { fd, path: dir },
      count: 2,
      entry,
      smallBytes: 0,
      spoolLimitBytes: 0,
    });
    try {
      // The first time starts a thread.
      await through(workers);
      const own = await timed(() => through(workers));
      const file = path.join(dir, 'k.chk');
      let storedBytes = 0;
      const alone = await timed(() => (storedBytes = zstdAlone(file)));
      const read = await timed(() => eachChunk(file, () => undefined));
      return {
        cpuS: own.cpuS,
        readS: read.cpuS,
        md5S: (await timed(() => md5Alone(file))).cpuS - read.cpuS,
        zstdS: alone.cpuS - read.cpuS,
        sha256S: (await timed(() => sha256Alone(storedBytes))).cpuS,
        sendS: await sendAlone(storedBytes),
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
  await body.parts.return();
  await body.done;
}

/** What no reading can beat on one thread: the same bytes, no md5, no parts, no proof. Returns what is stored. */
function zstdAlone(file) {
  const context = new zstd.CCtx();
  const output = new Uint8Array(2 * MiB);
  context.setParameter(zstd.CParameter.compressionLevel, 1);
  let storedBytes = 0;
  const compress = (chunk, directive) => {
    storedBytes += context.compressStream2(output, chunk, directive)[1];
  };
  eachChunk(file, (chunk) => compress(chunk, zstd.EndDirective.continue));
  compress(new Uint8Array(0), zstd.EndDirective.end);
  return storedBytes;
}

function md5Alone(file) {
  const md5 = createHash('md5');
  eachChunk(file, (chunk) => md5.update(chunk));
  md5.digest();
}

function sha256Alone(storedBytes) {
  const part = new Uint8Array(8 * MiB).fill(7);
  for (let at = 0; at < storedBytes; at += part.length)
    createHash('sha256')
      .update(part.subarray(0, storedBytes - at))
      .digest();
}

/** CPU of the sender alone; the other end is another process. */
async function sendAlone(storedBytes) {
  const receiver = fork(RECEIVER);
  const [port] = await once(receiver, 'message');
  const gone = once(receiver, 'exit');
  const socket = net.connect(port, '127.0.0.1');
  await once(socket, 'connect');
  const part = new Uint8Array(8 * MiB).fill(7);
  const { cpuS } = await timed(async () => {
    for (let at = 0; at < storedBytes; at += part.length)
      await new Promise((resolve) => socket.write(part.subarray(0, storedBytes - at), resolve));
  });
  socket.destroy();
  await gone;
  return cpuS;
}

function eachChunk(file, use) {
  const input = new Uint8Array(MiB);
  const source = fs.openSync(file, 'r');
  for (;;) {
    const sizeBytes = fs.readSync(source, input);
    if (sizeBytes === 0) break;
    use(input.subarray(0, sizeBytes));
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
