// Several machines: how long it takes to submit an array, what Redis holds of it, and what a task costs that does nothing,
// with eight workers that take tasks from the same queue. They share this machine's cores, so the time is not that of eight.
import fs from 'node:fs';
import { runCommand } from '../lib/command.mjs';
import { cpuS } from '../lib/processes.mjs';
import { startRedis } from '../lib/redis.mjs';
import { freshDir } from '../lib/running.mjs';
import { BUCKET } from '../lib/server.mjs';
import { BIN } from '../rivals/capture.mjs';

const WORKERS = 8;
/** Each ends when nothing was left for so long. */
const IDLE_S = 2;
/** A look at the memory of so many processes takes long. */
const LOOK_EVERY_MS = 1000;
const START_WORKERS = `n=0; while [ $n -lt ${WORKERS} ]; do "$@" & n=$((n + 1)); done; wait`;

export const queue = {
  name: 'queue',
  title: 'An array in a queue on Redis, tasks that do nothing',
  rounds: 1,
  needs: 'redis-server',
  tools: ['capture'],
  columns: [
    { key: 'submitS', title: 'submitted in', unit: 's' },
    { key: 'submitCpuS', title: 'CPU', unit: 's' },
    { key: 'submitMiB', title: 'memory', unit: 'MiB' },
    { key: 'redisMiB', title: 'in Redis', unit: 'MiB' },
    { key: 'tasksPerS', title: `tasks a second, ${WORKERS} workers` },
    { key: 'cpuMs', title: 'CPU of a task', unit: 'ms' },
    { key: 'redisCpuMs', title: 'of it Redis', unit: 'ms' },
    { key: 'workersMiB', title: 'memory of the workers', unit: 'MiB' },
  ],
  plots: [
    {
      key: 'submitS',
      title: 'Submitting an array to a queue',
      xTitle: 'indices',
      yTitle: 'seconds',
    },
    { key: 'redisMiB', title: 'What Redis holds of an array', xTitle: 'indices', yTitle: 'MiB' },
  ],
  cases: (size) =>
    ({
      tiny: [[20, true]],
      usual: [
        [1000, true],
        [10_000, false],
        [100_000, false],
      ],
      large: [
        [1000, true],
        [10_000, true],
        [100_000, false],
      ],
    })[size].map(([indices, runs]) => ({
      name: `${indices.toLocaleString('en')} indices`,
      x: indices,
      indices,
      runs,
    })),
  measure: async ({ server, item: { indices, runs } }) => {
    await server.ask('reset');
    const dir = freshDir();
    const redis = await startRedis(dir);
    try {
      const at = ['--queue', redis.url('bench'), '--log-level', 'warn'];
      const array = ['--name', 'nothing', '--array', `0-${indices - 1}`, '-r', '*.dat', '--no-logs'];
      const to = ['--to', `s3://${BUCKET}/run`, '--path-style'];
      const submitted = await runCommand(server, [BIN, 'submit', ...at, ...array, ...to, '--', 'true'], dir);
      const redisMiB = redis.usedMiB();
      const ran = runs ? await run({ server, redis, at, dir, indices }) : {};
      const { seconds: submitS, cpuS: submitCpuS, peakMiB: submitMiB } = submitted;
      return { submitS, submitCpuS, submitMiB, redisMiB, ...ran };
    } finally {
      await redis.stop();
      fs.rmSync(dir, { recursive: true, force: true });
    }
  },
};

async function run({ server, redis, at, dir, indices }) {
  const before = cpuS(redis.pid);
  const worker = [BIN, 'worker', ...at, '--idle-timeout', `${IDLE_S}s`];
  const ran = await runCommand(server, ['sh', '-c', START_WORKERS, 'sh', ...worker], dir, LOOK_EVERY_MS);
  const redisCpuMs = ((cpuS(redis.pid) - before) * 1000) / indices;
  // It ends with 1 if some have failed.
  const status = ['sh', '-c', '"$@" || :', 'sh', BIN, 'queue', 'status', 'nothing', '--json', ...at];
  const { output } = await runCommand(server, status, dir);
  if (JSON.parse(output).submissions[0].done !== indices)
    throw new Error(`not all of them: ${output.slice(0, 1000)}`);
  return {
    tasksPerS: indices / (ran.seconds - IDLE_S),
    cpuMs: (ran.cpuS * 1000) / indices + redisCpuMs,
    redisCpuMs,
    workersMiB: ran.peakMiB,
  };
}
