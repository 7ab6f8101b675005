// How long after a close a result is visible, when nothing else is going on.
import { quantile } from '../lib/figures.mjs';
import { run } from '../lib/run.mjs';

export const latency = {
  name: 'latency',
  title: 'One small result now and then: from its close until it is visible',
  rounds: 3,
  heavyOnce: true,
  tools: ['capture', 'rclone-mount', 'rclone-loop', 'archiver', 'aws-archiver', 'lsyncd'],
  columns: [
    { key: 'p50S', title: 'p50', unit: 's', ratio: true },
    { key: 'maxS', title: 'the longest', unit: 's', ratio: true },
    { key: 'stored', title: 'stored' },
  ],
  cases: (size) => [{ name: '64 KiB, one a second', count: size === 'tiny' ? 2 : 10 }],
  measure: async ({ server, tool, item: { count } }) => {
    const task = { does: 'small', kind: 'float64', sizeBytes: 64 * 1024, count, perSecond: 1, restMs: 2000 };
    const { latenciesMs, stored } = await run({ server, tool }, { task });
    return {
      p50S: quantile(latenciesMs, 0.5) / 1000,
      maxS: quantile(latenciesMs, 1) / 1000,
      stored: `${stored} of ${count}`,
    };
  },
};
