// Many small results at a steady rate: whether a tool keeps up, and what each costs.
import { quantile } from '../lib/figures.mjs';
import { run } from '../lib/run.mjs';

const SIZES = [
  ['1 KiB', 1024],
  ['64 KiB', 65_536],
  ['1 MiB', 1_048_576],
];

export const small = {
  name: 'small',
  title: 'Many small results, 200 a second',
  rounds: 3,
  tools: [
    'capture',
    'rclone-mount',
    'rclone-loop',
    'aws-loop',
    'archiver',
    'lsyncd',
    'floor',
    'floor-socket',
  ],
  heavyOnce: true,
  columns: [
    { key: 'p50S', title: 'close to visible p50', unit: 's', ratio: true },
    { key: 'p99S', title: 'p99', unit: 's', ratio: true },
    { key: 'cpuS', title: 'CPU', unit: 's', ratio: true },
    { key: 'cpuMsEach', title: 'for each stored', unit: 'ms' },
    { key: 'requestsEach', title: 'requests for each' },
    { key: 'peakMiB', title: 'most memory', unit: 'MiB', ratio: true },
    { key: 'stored', title: 'stored' },
  ],
  cases: (size) => {
    const counts = size === 'tiny' ? [10, 10, 2] : [1000, 2000, 200];
    return SIZES.map(([name, sizeBytes], at) => {
      const count = counts[at];
      return { name: `${count.toLocaleString('en')} of ${name}`, sizeBytes, count };
    });
  },
  measure: async ({ server, tool, item: { sizeBytes, count } }) => {
    const task = { does: 'small', kind: 'float64', sizeBytes, count, perSecond: 200, restMs: 2000 };
    // Who is not done then has lost the results with the machine.
    const { latenciesMs, cpuS, requests, peakMiB, stored } = await run({ server, tool }, { task, capS: 40 });
    return {
      p50S: quantile(latenciesMs, 0.5) / 1000,
      p99S: quantile(latenciesMs, 0.99) / 1000,
      cpuS,
      cpuMsEach: (1000 * cpuS) / stored,
      requestsEach: requests / stored,
      peakMiB,
      stored: stored === count ? 'all' : `${stored} of ${count} in time`,
    };
  },
};
