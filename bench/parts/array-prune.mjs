// The checkpoints of an array that is done go, one of each index; beside the tools that delete by a pattern. capture looks
// of each object whether it may, and leaves a record that no longer names it.
import fs from 'node:fs';
import { runCommand } from '../lib/command.mjs';
import { plantArray, STORED_AT } from '../lib/planted.mjs';
import { freshDir } from '../lib/running.mjs';
import { BIN } from '../rivals/capture.mjs';

const own = {
  capture: { name: 'capture prune', argv: [BIN, 'prune', `s3://${STORED_AT}`, '--path-style'] },
  'rclone-loop': {
    name: 'rclone delete',
    argv: ['rclone', '-q', 'delete', '--checkers', '16', '--include', '/*.chk.*', `s3:${STORED_AT}`],
  },
  'aws-loop': {
    name: 'aws s3 rm',
    argv: ['aws', 's3', 'rm', '--quiet', '--recursive', '--exclude', '*', '--include', '*.chk.*'].concat(
      `s3://${STORED_AT}`,
    ),
  },
};

export const arrayPrune = {
  name: 'array-prune',
  title: 'The checkpoints of an array that is done are deleted, one for each index',
  rounds: 3,
  heavyOnce: true,
  own,
  tools: ['capture', 'rclone-loop', 'aws-loop'],
  columns: [
    { key: 'seconds', title: 'time', unit: 's', ratio: true },
    { key: 'cpuS', title: 'CPU', unit: 's', ratio: true },
    { key: 'peakMiB', title: 'most memory', unit: 'MiB', ratio: true },
    { key: 'requests', title: 'requests' },
  ],
  cases: (size) => {
    const indices = size === 'tiny' ? 20 : 10_000;
    return [{ name: `${indices.toLocaleString('en')} indices`, indices }];
  },
  measure: async ({ server, tool: { argv }, item: { indices } }) => {
    await plantArray(server, indices);
    const dir = freshDir();
    try {
      const { seconds, cpuS, peakMiB, requests } = await runCommand(server, argv, dir);
      const versions = await server.ask('versions');
      const gone = versions.filter(({ key, deleted }) => deleted && key.includes('.chk.')).length;
      if (gone !== indices) throw new Error(`${argv[0]} has deleted ${gone} checkpoints`);
      return { seconds, cpuS, peakMiB, requests };
    } finally {
      fs.rmSync(dir, { recursive: true });
    }
  },
};
