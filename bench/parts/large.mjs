// One large result: how long until it is visible, and what it costs beside md5 and zstd-1 alone.
import { createHash } from 'node:crypto';
import zstd from 'zstd-napi';
import { KINDS, MiB, blocks } from '../lib/content.mjs';
import { run } from '../lib/run.mjs';

export const large = {
  name: 'large',
  title: 'One large result',
  rounds: 3,
  heavyOnce: true,
  tools: ['capture', 'rclone-mount', 'archiver', 'aws-archiver'],
  columns: [
    { key: 'visibleS', title: 'close to visible', unit: 's', ratio: true },
    { key: 'cpuS', title: 'CPU', unit: 's', ratio: true },
    { key: 'timesAlone', title: 'times md5 and zstd-1 alone' },
    { key: 'peakMiB', title: 'most memory', unit: 'MiB', ratio: true },
    { key: 'stored', title: 'stored' },
  ],
  cases: (size) => {
    const mib = { tiny: 2, usual: 512, large: 1024 }[size];
    return KINDS.map((kind) => ({
      name: `${mib} MiB, ${kind}`,
      kind,
      sizeBytes: mib * MiB,
    }));
  },
  measure: async ({ server, tool, item: { kind, sizeBytes } }) => {
    const task = { does: 'small', kind, sizeBytes, count: 1, perSecond: 1 };
    const { latenciesMs, cpuS, peakMiB, stored } = await run({ server, tool }, { task });
    return {
      visibleS: latenciesMs[0] / 1000,
      cpuS,
      timesAlone: cpuS / costAloneS({ kind, sizeBytes }),
      peakMiB,
      stored: stored === 1 ? 'yes' : 'NO',
    };
  },
};

/** What no capture can do without, on one thread: of 32 MiB, for all of it. */
function costAloneS({ kind, sizeBytes }) {
  const bytes = Buffer.concat(
    [...blocks({ kind, seed: 1, sizeBytes: Math.min(sizeBytes, 32 * MiB) })].map(copied),
  );
  const before = process.cpuUsage();
  createHash('md5').update(bytes).digest();
  zstd.compress(bytes, { compressionLevel: 1 });
  const { user, system } = process.cpuUsage(before);
  return ((user + system) / 1e6) * (sizeBytes / bytes.length);
}

function copied(block) {
  return Buffer.from(block);
}
