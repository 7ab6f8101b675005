// What a task costs that does nothing: `capture array` claims, watches and records each of them, GNU parallel only starts
// them.
import fs from 'node:fs';
import path from 'node:path';
import { runCommand } from '../lib/command.mjs';
import { freshDir } from '../lib/running.mjs';
import { BUCKET } from '../lib/server.mjs';
import { BIN } from '../rivals/capture.mjs';
import { OWN_SIDECAR } from './many-memory.mjs';

export const manyTrivial = {
  name: 'many-trivial',
  title: 'Tasks that do nothing, two at once',
  rounds: 3,
  tools: ['capture', 'parallel'],
  columns: [
    { key: 'seconds', title: 'time', unit: 's', ratio: true },
    { key: 'taskCpuS', title: 'CPU of each task', unit: 's', ratio: true },
    { key: 'perS', title: 'tasks a second' },
  ],
  cases: (size) => {
    const tasks = { tiny: 2, usual: 200, large: 1000 }[size];
    const name = `${tasks.toLocaleString('en')} tasks`;
    const own = { name: `${name}, a sidecar for each`, tasks, isOwn: true, only: 'capture' };
    return size === 'tiny' ? [{ name, tasks }] : [{ name, tasks }, own];
  },
  measure: async ({ server, tool, item }) => {
    const { tasks } = item;
    await server.ask('reset');
    const dir = freshDir();
    try {
      const { seconds, cpuS } = await runCommand(server, argvOf(tool, item, dir), dir);
      return { seconds, taskCpuS: cpuS / tasks, perS: tasks / seconds };
    } finally {
      fs.rmSync(dir, { recursive: true });
    }
  },
};

function argvOf({ name, argv }, { tasks, isOwn = false }, dir) {
  const numbers = Array.from({ length: tasks }, (_, n) => String(n));
  if (name !== 'capture') return [...argv, '--jobs', '2', 'true', ':::', ...numbers];
  const table = path.join(dir, 'tasks.csv');
  fs.writeFileSync(table, [isOwn ? OWN_SIDECAR : 'number', ...numbers].join('\n'));
  const jobs = [
    '--jobs',
    '2',
    '--cpus',
    '0.01',
    '--memory',
    '1MiB',
    '--scratch',
    dir,
    '--log-level',
    'error',
  ];
  return [
    BIN,
    'array',
    '--to',
    `s3://${BUCKET}/run`,
    '--path-style',
    ...jobs,
    '--tasks',
    table,
    '--',
    'true',
  ];
}
