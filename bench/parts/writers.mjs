// Results of processes that end with their close, as the steps of a shell loop do: nobody can tell such a close from a
// death's, so each is stored twice, beside its name and, later, under it. What that costs.
import { quantile } from '../lib/figures.mjs';
import { run } from '../lib/run.mjs';

export const writers = {
  name: 'writers',
  title: 'A shell loop of 50 short-lived writers a second, 64 KiB each',
  rounds: 3,
  tools: ['capture', 'rclone-mount'],
  columns: [
    { key: 'p50S', title: 'close to visible p50', unit: 's', ratio: true },
    { key: 'cpuS', title: 'CPU', unit: 's', ratio: true },
    { key: 'requestsEach', title: 'requests for each' },
    { key: 'peakMiB', title: 'most memory', unit: 'MiB', ratio: true },
    { key: 'stored', title: 'stored' },
  ],
  cases: (size) => {
    const count = size === 'tiny' ? 5 : 1000;
    return [{ name: `${count} results`, count }];
  },
  measure: async ({ server, tool, item: { count } }) => {
    const task = { does: 'writers', kind: 'float64', sizeBytes: 65_536, count, perSecond: 50, restMs: 2000 };
    const { latenciesMs, cpuS, requests, peakMiB, stored } = await run({ server, tool }, { task, capS: 40 });
    return {
      p50S: quantile(latenciesMs, 0.5) / 1000,
      cpuS,
      requestsEach: requests / stored,
      peakMiB,
      stored: stored === count ? 'all' : `${stored} of ${count} in time`,
    };
  },
};
