// How time, CPU and memory grow with the size of one result that does not compress.
import { MiB } from '../lib/content.mjs';
import { run } from '../lib/run.mjs';

export const fileSize = {
  name: 'file-size',
  title: 'Growth with the size of one result (random bytes)',
  rounds: 1,
  tools: ['capture', 'rclone-mount', 'archiver'],
  columns: [
    { key: 'visibleS', title: 'close to visible', unit: 's', ratio: true },
    { key: 'cpuS', title: 'CPU', unit: 's', ratio: true },
    { key: 'peakMiB', title: 'most memory', unit: 'MiB', ratio: true },
  ],
  plots: [
    {
      key: 'peakMiB',
      title: 'Memory by the size of one result',
      xTitle: 'MiB',
      yTitle: 'MiB (PSS), the most',
    },
    { key: 'visibleS', title: 'From close to visible, by size', xTitle: 'MiB', yTitle: 's' },
  ],
  cases: (size) => {
    const sizes = { tiny: [1], usual: [64, 256, 1024], large: [64, 256, 1024, 2048, 4096, 8192] }[size];
    return sizes.map((mib) => ({ name: `${mib.toLocaleString('en')} MiB`, x: mib }));
  },
  measure: async ({ server, tool, item: { x } }) => {
    const task = { does: 'small', kind: 'random', sizeBytes: x * MiB, count: 1, perSecond: 1 };
    // The server keeps nothing so large.
    const job = { task, keep: 'small', unverified: true, capS: 600 };
    const { latenciesMs, cpuS, peakMiB } = await run({ server, tool }, job);
    return { visibleS: latenciesMs[0] / 1000, cpuS, peakMiB };
  },
};
