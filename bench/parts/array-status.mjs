// The state of every index of an array, from a listing of its records; beside what only lists them.
import fs from 'node:fs';
import { runCommand } from '../lib/command.mjs';
import { freshDir } from '../lib/running.mjs';
import { plantArray, RECORDS, STORED_AT } from '../lib/planted.mjs';
import { BIN } from '../rivals/capture.mjs';

const own = {
  capture: {
    name: 'capture status',
    argv: [BIN, 'status', `s3://${STORED_AT}`, '--path-style'],
    isWhole: (output, { indices }) => output.includes(`${indices.toLocaleString('en')} done`),
  },
  // Without --fast-list it asks for each folder.
  'rclone-loop': {
    name: 'rclone lsf -R --fast-list',
    argv: ['rclone', 'lsf', '-R', '--fast-list', '--files-only', `s3:${RECORDS}`],
    isWhole: hasLines,
  },
  'aws-loop': {
    name: 'aws s3 ls --recursive',
    argv: ['aws', 's3', 'ls', '--recursive', `s3://${RECORDS}`],
    isWhole: hasLines,
  },
};

export const arrayStatus = {
  name: 'array-status',
  title: 'Which indices of an array are done',
  rounds: 3,
  own,
  tools: ['capture', 'rclone-loop', 'aws-loop'],
  columns: [
    { key: 'seconds', title: 'time', unit: 's', ratio: true },
    { key: 'cpuS', title: 'CPU', unit: 's', ratio: true },
    { key: 'peakMiB', title: 'most memory', unit: 'MiB', ratio: true },
    { key: 'requests', title: 'requests' },
  ],
  cases: (size) => {
    const sizes = { tiny: [20], usual: [10_000], large: [10_000, 50_000] };
    return sizes[size].map((indices) => ({
      name: `${indices.toLocaleString('en')} indices, ${(8 * indices).toLocaleString('en')} records`,
      indices,
    }));
  },
  measure: async ({ server, tool, item }) => {
    await plantArray(server, item.indices);
    const dir = freshDir();
    try {
      const { output, ...figures } = await runCommand(server, tool.argv, dir);
      if (!tool.isWhole(output, item)) throw new Error(`not all of them: ${output.slice(-1000)}`);
      return figures;
    } finally {
      fs.rmSync(dir, { recursive: true });
    }
  },
};

function hasLines(output, { indices }) {
  return output.trimEnd().split('\n').length === 8 * indices;
}
