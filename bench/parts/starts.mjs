// A whole array that starts in one second, simulated: when have all tasks started, and how often does each ask? The driver's
// own retries are run, with a clock and a server of the model's.
import path from 'node:path';
import { bundle } from '../lib/bundle.mjs';

export const starts = {
  name: 'starts',
  title: 'An array that starts in one second (simulated)',
  rounds: 1,
  tools: ['capture'],
  columns: [
    { key: 'started', title: 'started' },
    { key: 'p50S', title: 'half of them after', unit: 's' },
    { key: 'p99S', title: '99 % after', unit: 's' },
    { key: 'allS', title: 'all after', unit: 's' },
    { key: 'leastS', title: 'the server needs', unit: 's' },
    { key: 'tries', title: 'tries for each request' },
    { key: 'peakPerS', title: 'most tries in a second' },
    { key: 'waves', title: 'waves' },
  ],
  cases: (size) => {
    // Below a thousand tasks nothing is refused.
    const tasks = size === 'tiny' ? 100 : 10_000;
    const s3 = 'S3: 5,500 reads and 3,500 writes a second';
    const servers = [
      { server: s3, jitter: true },
      { server: s3, jitter: false },
      ...[4000, 1000, 500, 200].map((perS) => ({ perS, jitter: true })),
      { perS: 1000, jitter: false },
    ];
    return servers.map(({ server, perS, jitter }) => ({
      tasks,
      perS,
      jitter,
      name: `${tasks.toLocaleString('en')}, ${server ?? `RGW: ${perS.toLocaleString('en')} a second`}${jitter ? '' : ', without jitter'}`,
    }));
  },
  measure: async ({ item: { tasks, jitter, perS } }) => {
    const out = await bundle('bench/lib/array-start.ts');
    const model = await import(path.join(out, 'array-start.mjs'));
    const { FIRST_START, S3_LIMITS, rgwLimits, startArray } = model;
    const [requests, limits] =
      perS === undefined ? [FIRST_START.aws, S3_LIMITS] : [FIRST_START.other, rgwLimits(perS)];
    const { sent, ...figures } = await startArray({ tasks, requests, limits, jitter });
    return { ...figures, tries: sent / (tasks * requests.length) };
  },
};
