// What capture's two processes take of their own for an ordinary task: four at once, as on a node of an array, so that
// what they share is divided among them.
import { setTimeout as pause } from 'node:timers/promises';
import { commandOf, pssMiB } from '../lib/processes.mjs';
import { run } from '../lib/run.mjs';

const SETTLE_MS = 3000;

export const memory = {
  name: 'memory',
  title: 'Memory of each of four tasks at once, three results stored',
  rounds: 3,
  tools: ['capture', 'rclone-mount', 'archiver'],
  columns: [
    { key: 'launcherMiB', title: 'launcher (PSS)', unit: 'MiB' },
    { key: 'sidecarMiB', title: 'sidecar', unit: 'MiB' },
    { key: 'allMiB', title: 'all processes', unit: 'MiB', ratio: true },
  ],
  cases: (size) => [{ name: 'S3', tasks: size === 'tiny' ? 1 : 4 }],
  measure: async ({ server, tool, item: { tasks } }) => {
    await server.ask('reset');
    const task = { does: 'burst', kind: 'float64', sizeBytes: 65_536, count: 3, stays: true };
    const meeting = meetingOf(tasks);
    const runs = Array.from({ length: tasks }, (_, index) => {
      const options = ['--index', String(index)];
      const found = {};
      const during = async ({ pids, happened }) => {
        await happened('ready');
        await pause(SETTLE_MS);
        await meeting();
        Object.assign(found, look(pids()));
        await meeting();
        return true;
      };
      return run({ server, tool }, { task, options, during, together: true }).then(() => found);
    });
    const all = await Promise.all(runs);
    const mean = (key) => all.reduce((sum, one) => sum + one[key], 0) / tasks;
    const [launcherMiB, sidecarMiB] =
      tool.name === 'capture' ? [mean('launcherMiB'), mean('sidecarMiB')] : [];
    return { launcherMiB, sidecarMiB, allMiB: mean('allMiB') };
  },
};

function look(pids) {
  const isSidecar = (pid) => commandOf(pid).includes('sidecar.cjs');
  const sum = (some) => some.reduce((total, pid) => total + pssMiB(pid), 0);
  const sidecars = pids.filter(isSidecar);
  return { sidecarMiB: sum(sidecars), launcherMiB: sum(pids.slice(0, 1)), allMiB: sum(pids) };
}

/** Resolves for all when all have come, again and again. */
function meetingOf(count) {
  let waiting = [];
  return () =>
    new Promise((resolve) => {
      waiting.push(resolve);
      if (waiting.length < count) return;
      for (const one of waiting) one();
      waiting = [];
    });
}
