// What each further task of `capture array` takes of memory, beside one task alone: all of them have stored a result and
// sleep. Once with the sidecar that they share, and once with one for each, as a task gets whose variables need one.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { commandOf, killTree, pssMiB, tree } from '../lib/processes.mjs';
import { freshDir } from '../lib/running.mjs';
import { BUCKET, envOf } from '../lib/server.mjs';
import { BIN } from '../rivals/capture.mjs';

const SETTLE_MS = 3000;
const LOOK_EVERY_MS = 100;
const STORED_WITHIN_MS = 120_000;
/** A column by which each task has a sidecar of its own (docs/many-tasks.md). */
export const OWN_SIDECAR = 'NODE_BENCH';

export const manyMemory = {
  name: 'many-memory',
  title: 'Memory of each further task of capture array, one result stored (PSS)',
  rounds: 1,
  tools: ['capture'],
  columns: [
    { key: 'allMiB', title: 'all processes', unit: 'MiB' },
    { key: 'launchersMiB', title: 'launchers', unit: 'MiB' },
    { key: 'sidecarsMiB', title: 'sidecars', unit: 'MiB' },
    { key: 'runnerMiB', title: 'runner', unit: 'MiB' },
    { key: 'furtherMiB', title: 'each further task', unit: 'MiB' },
  ],
  cases: (size) => {
    const counts = { tiny: [2], usual: [4, 16, 64], large: [4, 16, 64, 256] };
    const own = { tiny: [], usual: [4, 16], large: [4, 16, 64] };
    return [
      ...counts[size].map((tasks) => ({ name: `${tasks} tasks`, tasks, shared: true })),
      ...own[size].map((tasks) => ({ name: `${tasks} tasks, a sidecar for each`, tasks, shared: false })),
    ];
  },
  measure: async ({ server, item: { tasks, shared } }) => {
    const one = await lookAt(server, { tasks: 1, shared });
    const all = await lookAt(server, { tasks, shared });
    return { ...all, furtherMiB: (all.allMiB - one.allMiB) / (tasks - 1) };
  },
};

async function lookAt(server, { tasks, shared }) {
  await server.ask('reset');
  const dir = freshDir();
  const table = path.join(dir, 'tasks.csv');
  fs.writeFileSync(table, `${shared ? 'size' : OWN_SIDECAR}\n${'1\n'.repeat(tasks)}`);
  const options = ['--scratch', dir, '--jobs', String(tasks), '--memory', '1MiB', '--cpus', '0.01'];
  const argv = [
    'array',
    '--to',
    `s3://${BUCKET}/run`,
    '--path-style',
    '--tasks',
    table,
    '-r',
    'r',
    ...options,
  ];
  const script = 'echo 1 >r; exec sleep 600';
  const output = fs.openSync(path.join(dir, 'output'), 'w');
  const child = spawn(BIN, [...argv, '--', 'sh', '-c', script], {
    env: { ...envOf(server, dir), TMPDIR: dir },
    stdio: ['ignore', output, output],
  });
  fs.closeSync(output);
  const closed = once(child, 'close');
  try {
    const isStored = async () => {
      const versions = await server.ask('versions');
      return versions.filter(({ key }) => /^run\/r\.\d+$/.test(key)).length === tasks;
    };
    const untilMs = performance.now() + STORED_WITHIN_MS;
    while (!(await isStored())) {
      if (performance.now() > untilMs) throw new Error(fs.readFileSync(path.join(dir, 'output'), 'utf8'));
      await pause(LOOK_EVERY_MS);
    }
    await pause(SETTLE_MS);
    return memoryOf(tree(child.pid));
  } finally {
    killTree(child.pid);
    await closed;
    fs.rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
  }
}

function memoryOf(pids) {
  const sum = (program) =>
    pids.filter((pid) => commandOf(pid).includes(program)).reduce((total, pid) => total + pssMiB(pid), 0);
  const [launchersMiB, sidecarsMiB, runnerMiB] = ['/capture.cjs', '/sidecar.cjs', '/many.cjs'].map(sum);
  return { allMiB: launchersMiB + sidecarsMiB + runnerMiB, launchersMiB, sidecarsMiB, runnerMiB };
}
