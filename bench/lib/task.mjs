// The tasks that the tools of the bench look after: `node task.mjs <what it does> <options as JSON> <log>`. A task writes into
// the current directory and notes each close, as a line of JSON, in a log that nobody watches.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { Worker, isMainThread, workerData } from 'node:worker_threads';
import { MiB, blocks } from './content.mjs';

const TASKS = {
  /** `count` results, `perSecond` of them; then it goes on for `restMs`. */
  small: async (options) => {
    const startMs = clockMs();
    for (let n = 0; n < options.count; n += 1) {
      await until(startMs + (1000 * n) / options.perSecond);
      result(n, options);
    }
    await pause(options.restMs ?? 0);
  },
  /** `count` results, each of a process of its own that ends with its close, as the steps of a shell script are. */
  writers: async (options) => {
    const startMs = clockMs();
    const ends = [];
    for (let n = 0; n < options.count; n += 1) {
      await until(startMs + (1000 * n) / options.perSecond);
      ends.push(writtenByProcess(n, options));
    }
    await Promise.all(ends);
    await pause(options.restMs ?? 0);
  },
  /** As fast as the disk takes them. */
  burst: async (options) => {
    await pause(options.waitMs ?? 0);
    quiet = options.quiet === true;
    note({ event: 'begin' });
    for (let n = 0; n < options.count; n += 1) result(n, options);
    note({ event: 'ready' });
    if (options.stays) await ended;
  },
  /** One checkpoint, `times` times, by one of two ways. */
  checkpoint: async (options) => {
    await pause(options.waitMs ?? 0);
    note({ event: 'begin' });
    const startMs = clockMs();
    for (let version = 1; version <= options.times; version += 1) {
      await until(startMs + (version - 1) * options.everyMs);
      await rewrite(version, options);
    }
    await until(startMs + options.times * options.everyMs);
  },
  /** Small results while all cores compute. */
  busy: async (options) => {
    const counters = Array.from({ length: os.availableParallelism() }, () => new SharedArrayBuffer(8));
    const workers = counters.map((counter) => new Worker(new URL(import.meta.url), { workerData: counter }));
    // Until all of them count.
    while (counters.some((counter) => counted(counter) === 0)) await pause(10);
    const before = { atMs: clockMs(), sum: counters.reduce((sum, counter) => sum + counted(counter), 0) };
    note({ event: 'ready' });
    await TASKS.small(options);
    const sum = counters.reduce((total, counter) => total + counted(counter), 0);
    note({ event: 'work', perMs: (sum - before.sum) / (clockMs() - before.atMs) });
    await Promise.all(workers.map((worker) => worker.terminate()));
  },
  idle: async () => {
    note({ event: 'ready' });
    await ended;
  },
  /** Leaves results behind, and writes its newest checkpoint when it is told to end. */
  backlog: async ({ backlogMiB, checkpointMiB, sizesMiB }) => {
    const kind = 'random';
    write('k.chk', { kind, seed: 1, sizeBytes: checkpointMiB * MiB });
    for (let n = 0, mib = 0; mib < backlogMiB; n += 1) {
      const size = sizesMiB[n % sizesMiB.length];
      result(n, { kind, sizeBytes: size * MiB });
      mib += size;
    }
    note({ event: 'ready' });
    await ended;
    write('k.chk', { kind, seed: 2, sizeBytes: checkpointMiB * MiB });
  },
};

let log;
let quiet = false;
const ended = new Promise((resolve) => {
  if (isMainThread) process.once('SIGTERM', resolve);
});

if (isMainThread) {
  const [, , does, options, logFile] = process.argv;
  const settings = JSON.parse(options);
  log = fs.openSync(logFile, 'a');
  // The first block takes a while to make: not a part of any figure.
  blocks({ kind: settings.kind ?? 'random', seed: 1, sizeBytes: 1 }).next();
  note({ event: 'start', pid: process.pid });
  // SIGTERM alone keeps no process.
  const alive = setInterval(() => undefined, 1e6);
  await TASKS[does](settings);
  clearInterval(alive);
  const { user, system } = process.cpuUsage();
  note({ event: 'end', cpuS: (user + system) / 1e6 });
} else {
  count(new Float64Array(workerData));
}

function result(n, { kind, sizeBytes }) {
  write(`r${String(n).padStart(6, '0')}.dat`, { kind, seed: n + 1, sizeBytes });
}

async function writtenByProcess(n, { kind, sizeBytes }) {
  const state = { kind, seed: n + 1, sizeBytes };
  const name = `r${String(n).padStart(6, '0')}.dat`;
  const writer = spawn('sh', ['-c', `cat > ${name}`], { stdio: ['pipe', 'inherit', 'inherit'] });
  writer.stdin.end(Buffer.concat([...blocks(state)].map((block) => Buffer.from(block))));
  await once(writer, 'exit');
  note({ event: 'close', name, ...state, nlink: 1 });
}

function write(name, state) {
  const fd = fs.openSync(name, 'w');
  for (const block of blocks(state)) fs.writeSync(fd, block);
  close(fd, name, state);
}

/** In place: never truncated, open for a while. By rename: as a careful program does it. */
async function rewrite(seed, { how, kind, sizeBytes, writeMs }) {
  const state = { kind, seed, sizeBytes };
  const { O_WRONLY, O_CREAT } = fs.constants;
  const fd = fs.openSync(how === 'rename' ? 'k.chk.tmp' : 'k.chk', O_WRONLY | O_CREAT, 0o644);
  const startMs = clockMs();
  let written = 0;
  for (const block of blocks(state)) {
    written += fs.writeSync(fd, block);
    await until(startMs + (writeMs * written) / sizeBytes);
  }
  if (how !== 'rename') return close(fd, 'k.chk', state);
  fs.closeSync(fd);
  note({ event: 'close', name: 'k.chk', ...state, nlink: 1 });
  return fs.renameSync('k.chk.tmp', 'k.chk');
}

/** The instant before the close: a close that waits is a part of what the task pays. */
function close(fd, name, state) {
  if (!quiet) note({ event: 'close', name, ...state, nlink: fs.fstatSync(fd).nlink });
  fs.closeSync(fd);
}

function note(what) {
  fs.writeSync(log, `${JSON.stringify({ atMs: clockMs(), ...what })}\n`);
}

async function until(atMs) {
  const leftMs = atMs - clockMs();
  if (leftMs > 0) await pause(leftMs);
}

/** CLOCK_MONOTONIC, as the server's. */
function clockMs() {
  return Number(process.hrtime.bigint()) / 1e6;
}

function counted(counter) {
  return new Float64Array(counter)[0];
}

/** Work that never ends. */
function count(counter) {
  for (let value = 1; ;) {
    for (let n = 0; n < 100_000; n += 1) value = (value * 1.000_000_1) % 1e6;
    counter[0] += value > 0 ? 1 : 2;
  }
}
