// How memory grows with the number of results that are closed and cannot be sent: the store gives no answer.
import { setTimeout as pause } from 'node:timers/promises';
import { cpuS, pssMiB } from '../lib/processes.mjs';
import { run } from '../lib/run.mjs';

const LOOK_EVERY_MS = 1000;
const MOST_LOOKS = 120;

export const pending = {
  name: 'pending',
  title: 'Growth with the number of pending results (100 bytes each; the store gives no answer)',
  rounds: 1,
  tools: ['capture', 'rclone-mount'],
  columns: [
    { key: 'peakMiB', title: 'most memory', unit: 'MiB', ratio: true },
    { key: 'restMiB', title: 'memory at rest', unit: 'MiB', ratio: true },
    { key: 'cpuS', title: 'CPU', unit: 's', ratio: true },
  ],
  plots: [
    { key: 'peakMiB', title: 'Memory by pending results', xTitle: 'results', yTitle: 'MiB (PSS), the most' },
  ],
  cases: (size) => {
    const counts = size === 'tiny' ? [10] : [1000, 10_000, 50_000, 200_000];
    return counts.map((count) => ({
      name: count.toLocaleString('en'),
      x: count,
      // The mount takes minutes for as many.
      only: count === 200_000 && size === 'usual' ? 'capture' : undefined,
    }));
  },
  measure: async ({ server, tool, item: { x } }) => {
    const task = {
      does: 'burst',
      kind: 'random',
      sizeBytes: 100,
      count: x,
      waitMs: 1000,
      quiet: true,
      stays: true,
    };
    let restMiB;
    let spentS;
    const during = async ({ pids, happened }) => {
      await server.ask('hold');
      await happened('ready');
      await rested(pids);
      const own = pids();
      restMiB = own.reduce((sum, pid) => sum + pssMiB(pid), 0);
      spentS = own.reduce((sum, pid) => sum + cpuS(pid), 0);
      return true;
    };
    const { peakMiB } = await run({ server, tool }, { task, during, unverified: true });
    return { peakMiB, restMiB, cpuS: spentS };
  },
};

/** Until the tool has taken in what it can: its CPU stands nearly still. */
async function rested(pids) {
  const spentS = () => pids().reduce((sum, pid) => sum + cpuS(pid), 0);
  for (let look = 0, before = 0; look < MOST_LOOKS; look += 1) {
    await pause(LOOK_EVERY_MS);
    const now = spentS();
    if (now - before < 0.05) return;
    before = now;
  }
}
