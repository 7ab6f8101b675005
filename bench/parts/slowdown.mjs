// How much slower a task that uses all cores computes when a tool looks after its results. Each measurement is a pair:
// the task alone, then under the tool. What the server takes of the same cores in that time is taken off.
import os from 'node:os';
import { run } from '../lib/run.mjs';

const ALONE = { name: 'alone', script: '"$@"', nameOf: (key) => key };

export const slowdown = {
  name: 'slowdown',
  title: 'Slow-down of a task that uses all cores and closes 200 results of 64 KiB a second',
  rounds: 3,
  tools: ['capture', 'rclone-mount', 'rclone-loop', 'archiver', 'lsyncd'],
  heavyOnce: true,
  columns: [
    { key: 'slowdownPercent', title: 'slow-down', unit: '%' },
    { key: 'withServerPercent', title: 'with what the server takes', unit: '%' },
  ],
  cases: (size) => {
    const count = size === 'tiny' ? 10 : 2000;
    return [{ name: `over ${count / 200} s`, count }];
  },
  measure: async ({ server, tool, item: { count } }) => {
    const task = { does: 'busy', kind: 'float64', sizeBytes: 65_536, count, perSecond: 200 };
    const alone = await rateOf({ server, tool: ALONE }, task);
    const beside = await rateOf({ server, tool }, task);
    const left = 1 - beside.serverS / (beside.seconds * os.availableParallelism());
    return {
      slowdownPercent: 100 * (1 - beside.perMs / (alone.perMs * left)),
      withServerPercent: 100 * (1 - beside.perMs / alone.perMs),
    };
  },
};

async function rateOf({ server, tool }, task) {
  const marks = new Map();
  const during = async ({ happened }) => {
    for (const mark of ['ready', 'work']) {
      await happened(mark);
      marks.set(mark, await server.ask('cpuS'));
    }
  };
  const { events } = await run({ server, tool }, { task, during, capS: 5, unverified: true });
  const [ready, work] = ['ready', 'work'].map((mark) => events.find(({ event }) => event === mark));
  if (work === undefined) throw new Error(`${tool.name} was ended before the task`);
  return {
    perMs: work.perMs,
    seconds: (work.atMs - ready.atMs) / 1000,
    serverS: marks.get('work') - marks.get('ready'),
  };
}
