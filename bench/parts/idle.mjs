// What a tool costs while the task closes nothing: CPU, and how often it wakes up. All sleep at the same time.
import { setTimeout as pause } from 'node:timers/promises';
import { cpuS, pssMiB, sleeps } from '../lib/processes.mjs';
import { run } from '../lib/run.mjs';

const SETTLE_MS = 10_000;

export const idle = {
  name: 'idle',
  title: 'Nothing is closed: the cost of each minute',
  rounds: 1,
  sideBySide: true,
  tools: ['capture', 'rclone-mount', 'rclone-loop', 'archiver', 'lsyncd'],
  columns: [
    { key: 'cpuMs', title: 'CPU', unit: 'ms' },
    { key: 'sleeps', title: 'voluntary context switches' },
    { key: 'memoryMiB', title: 'memory', unit: 'MiB', ratio: true },
  ],
  cases: (size) => {
    const seconds = size === 'tiny' ? 1 : 600;
    return [{ name: `over ${seconds} s`, seconds, settleMs: size === 'tiny' ? 500 : SETTLE_MS }];
  },
  measure: async ({ server, tool, item: { seconds, settleMs } }) => {
    let figures;
    const during = async ({ pids }) => {
      await pause(settleMs);
      const sum = (of) => pids().reduce((total, pid) => total + of(pid), 0);
      // Of the processes that a loop starts only what they have cost is left, at their parent.
      const before = [sum((pid) => cpuS(pid, true)), sum(sleeps)];
      await pause(seconds * 1000);
      const after = [sum((pid) => cpuS(pid, true)), sum(sleeps)];
      const memoryMiB = sum(pssMiB);
      const perMinute = 60 / seconds;
      figures = {
        cpuMs: (after[0] - before[0]) * 1000 * perMinute,
        sleeps: Math.max(0, after[1] - before[1]) * perMinute,
        memoryMiB,
      };
      return true;
    };
    await run({ server, tool }, { task: { does: 'idle' }, during, together: true });
    return figures;
  },
};
