// Results as fast as the disk takes them: how the work grows with their number, and what is left of them when the queue
// of inotify has overflowed because its reader was stopped.
import { commandOf } from '../lib/processes.mjs';
import { run } from '../lib/run.mjs';

const FILE_BYTES = 1024;

export const burst = {
  name: 'burst',
  title: 'A burst of results of 1 KiB',
  rounds: 1,
  tools: ['capture', 'rclone-mount', 'archiver', 'lsyncd'],
  columns: [
    { key: 'writeS', title: 'the task writes for', unit: 's', ratio: true },
    { key: 'visibleS', title: 'first close until all are visible', unit: 's', ratio: true },
    { key: 'cpuS', title: 'CPU', unit: 's', ratio: true },
    { key: 'peakMiB', title: 'most memory', unit: 'MiB', ratio: true },
    { key: 'stored', title: 'stored' },
  ],
  plots: [
    { key: 'cpuS', title: 'CPU by the number of results', xTitle: 'results of 1 KiB', yTitle: 'CPU s' },
    { key: 'visibleS', title: 'Time until all are visible', xTitle: 'results of 1 KiB', yTitle: 's' },
  ],
  cases: (size) => {
    const counts = size === 'tiny' ? [10] : [500, 2000, 8000];
    const overflow = size === 'tiny' ? 20 : 10_000;
    return [
      ...counts.map((count) => ({
        name: count.toLocaleString('en'),
        x: count,
        count,
        // Not for those that start a process for each.
        light: count > 2000,
      })),
      // Its queue takes 16,384 events, and a new file is more than one.
      {
        name: `${overflow.toLocaleString('en')}, the reader stopped`,
        count: overflow,
        stopped: true,
        only: 'capture',
      },
    ];
  },
  measure: async ({ server, tool, item: { count, stopped } }) => {
    const task = { does: 'burst', kind: 'float64', sizeBytes: FILE_BYTES, count, waitMs: 1000 };
    const during = stopped ? stopReader : undefined;
    const found = await run({ server, tool }, { task, during, capS: stopped ? 300 : 60 });
    return {
      ...times(found, count),
      cpuS: found.cpuS,
      peakMiB: found.peakMiB,
      stored: found.stored === count ? 'all' : `${found.stored} of ${count} in time`,
    };
  },
};

/** A tool that holds up the closes holds up the task. */
function times({ events, storedMs }, count) {
  const closes = events.filter(({ event }) => event === 'close');
  const first = closes[0].atMs;
  return {
    writeS: (closes.at(-1).atMs - first) / 1000,
    visibleS: storedMs.size === count ? (Math.max(...storedMs.values()) - first) / 1000 : undefined,
  };
}

/** While the task writes. */
async function stopReader({ pids, happened }) {
  const reader = pids().find((pid) => commandOf(pid).includes('sidecar'));
  process.kill(reader, 'SIGSTOP');
  await happened('ready');
  process.kill(reader, 'SIGCONT');
}
