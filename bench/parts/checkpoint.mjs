// A checkpoint that is written again every 3 s, ten times: how many of its states are ever in the store, whether one is
// torn, and whether the file is deleted under its writer.
import { MiB } from '../lib/content.mjs';
import { run } from '../lib/run.mjs';

const TIMES = 10;

export const checkpoint = {
  name: 'checkpoint',
  title: 'A checkpoint rewritten every 3 s, ten times',
  rounds: 1,
  tools: ['capture', 'rclone-mount', 'archiver'],
  columns: [
    { key: 'captured', title: 'states stored' },
    { key: 'torn', title: 'torn' },
    { key: 'deleted', title: 'closes of a deleted file' },
    { key: 'last', title: 'the last one' },
    { key: 'latencyS', title: 'close to visible', unit: 's', ratio: true },
    { key: 'cpuEachS', title: 'CPU for each stored', unit: 's', ratio: true },
    { key: 'peakMiB', title: 'most memory', unit: 'MiB', ratio: true },
  ],
  cases: (size) => {
    const mib = { tiny: 1, usual: 128, large: 256 }[size];
    const [times, everyMs, writeMs] = size === 'tiny' ? [2, 300, 100] : [TIMES, 3000, 1200];
    // Of what is not compressed: capture sends a file that moves while it is sent from a copy, as it is.
    const slow = (mib * MiB) / (3 * (everyMs / 1000));
    const ways = [
      ['in place', 'in place'],
      ['by rename', 'rename'],
      ['in place, a link that carries one in three', 'in place', slow],
    ];
    return ways.map(([words, how, bytesPerSecond]) => ({
      name: `${mib} MiB, ${words}`,
      bytesPerSecond,
      task: { does: 'checkpoint', kind: 'float64', how, sizeBytes: mib * MiB, times, everyMs, writeMs },
    }));
  },
  measure: async ({ server, tool, item: { task, bytesPerSecond } }) => {
    const { events, latenciesMs, torn, stored, cpuS, peakMiB } = await run(
      { server, tool },
      { task, bytesPerSecond },
    );
    const captured = latenciesMs.length;
    return {
      captured: `${captured} of ${task.times}`,
      torn,
      deleted: events.filter(({ event, nlink }) => event === 'close' && nlink === 0).length,
      last: stored === 1 ? 'stored' : 'LOST',
      latencyS: latenciesMs.reduce((sum, one) => sum + one, 0) / captured / 1000,
      cpuEachS: cpuS / captured,
      peakMiB,
    };
  },
};
