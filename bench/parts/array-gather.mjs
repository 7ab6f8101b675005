// All results of an array on one disk, and the same once more when nothing is left to do; beside the tools that copy a
// bucket. capture knows from records which objects are results, and checks each against its md5.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { runCommand } from '../lib/command.mjs';
import { plantArray, STORED_AT } from '../lib/planted.mjs';
import { freshDir } from '../lib/running.mjs';
import { BIN } from '../rivals/capture.mjs';

const RESULTS_PER_INDEX = 2;

const own = {
  capture: { name: 'capture gather', argv: [BIN, 'gather', `s3://${STORED_AT}`, '.', '--path-style'] },
  // As many at once as capture; and no request for the time of each object.
  'rclone-loop': {
    name: 'rclone copy',
    argv: 'rclone -q copy --use-server-modtime --transfers 16 --checkers 16 --include'
      .split(' ')
      .concat('/*.dat.*', `s3:${STORED_AT}`, '.'),
  },
  'aws-loop': {
    name: 'aws s3 sync',
    argv: [
      'aws',
      's3',
      'sync',
      '--quiet',
      '--exclude',
      '*',
      '--include',
      '*.dat.*',
      `s3://${STORED_AT}`,
      '.',
    ],
  },
};

export const arrayGather = {
  name: 'array-gather',
  title: 'All results of an array on one disk, two of 1 KiB for each index',
  rounds: 3,
  heavyOnce: true,
  own,
  tools: ['capture', 'rclone-loop', 'aws-loop'],
  columns: [
    { key: 'seconds', title: 'time', unit: 's', ratio: true },
    { key: 'cpuS', title: 'CPU', unit: 's', ratio: true },
    { key: 'peakMiB', title: 'most memory', unit: 'MiB', ratio: true },
    { key: 'requests', title: 'requests' },
    { key: 'againS', title: 'once more', unit: 's', ratio: true },
    { key: 'againCpuS', title: 'CPU', unit: 's', ratio: true },
    { key: 'againRequests', title: 'requests' },
  ],
  cases: (size) => {
    const indices = size === 'tiny' ? 20 : 10_000;
    const named = `${indices.toLocaleString('en')} indices`;
    return [
      { name: `${named}, in memory`, indices, makeDir: freshDir, light: true },
      { name: `${named}, on a disk`, indices, makeDir: onDisk },
    ];
  },
  measure: async ({ server, tool: { argv }, item: { indices, makeDir } }) => {
    await plantArray(server, indices);
    const dir = makeDir();
    try {
      const { seconds, cpuS, peakMiB, requests } = await runCommand(server, argv, dir);
      const names = fs.readdirSync(path.join(dir, 'work'), { recursive: true });
      const files = names.filter((name) => name.includes('.dat')).length;
      if (files !== RESULTS_PER_INDEX * indices) throw new Error(`${argv[0]} has brought ${files} files`);
      const again = await runCommand(server, argv, dir);
      const { seconds: againS, cpuS: againCpuS, requests: againRequests } = again;
      return { seconds, cpuS, peakMiB, requests, againS, againCpuS, againRequests };
    } finally {
      fs.rmSync(dir, { recursive: true });
    }
  },
};

/** Where temporary files are: usually a disk. */
function onDisk() {
  return fs.mkdtempSync(path.join(os.tmpdir(), 'capture-bench-'));
}
