// How fast a checkpoint comes back, beside the rate of the link; and over a link without a limit, where hash, disk and
// CPU decide.
import fs from 'node:fs';
import path from 'node:path';
import { runCommand } from '../lib/command.mjs';
import { MiB } from '../lib/content.mjs';
import { run } from '../lib/run.mjs';
import { freshDir } from '../lib/running.mjs';
import { BUCKET } from '../lib/server.mjs';
import { BIN, capture, captureOptions } from '../rivals/capture.mjs';

const own = {
  capture: { name: 'capture', argv: () => [BIN, 'restore', ...captureOptions(`s3://${BUCKET}/run`)] },
  'rclone-loop': {
    name: 'rclone copyto',
    argv: (key) => ['rclone', '-q', 'copyto', `s3:${BUCKET}/${key}`, 'k.chk'],
  },
  'aws-loop': {
    name: 'aws s3 cp',
    argv: (key) => ['aws', 's3', 'cp', '--quiet', `s3://${BUCKET}/${key}`, 'k.chk'],
  },
};

export const restore = {
  name: 'restore',
  title: 'Restore of one checkpoint that does not compress',
  rounds: 3,
  own,
  tools: ['capture', 'rclone-loop', 'aws-loop'],
  columns: [
    { key: 'seconds', title: 'time', unit: 's', ratio: true },
    { key: 'mibPerS', title: 'MiB/s' },
    { key: 'ofLinkPercent', title: 'of the link', unit: '%' },
  ],
  cases: (size) => {
    const mib = size === 'tiny' ? 1 : 256;
    return [
      { name: `${mib} MiB at 32 MiB/s`, mib, rateMiB: 32 },
      { name: `${mib} MiB, no limit`, mib },
    ];
  },
  measure: async ({ server, tool, item: { mib, rateMiB } }) => {
    const task = {
      does: 'checkpoint',
      kind: 'random',
      how: 'rename',
      sizeBytes: mib * MiB,
      times: 1,
      everyMs: 0,
      writeMs: 0,
    };
    await run({ server, tool: capture }, { task });
    const key = (await server.ask('versions')).find((version) => version.key.startsWith('run/k.chk')).key;
    await server.ask('setRate', { bytesPerSecond: rateMiB === undefined ? undefined : rateMiB * MiB });
    const seconds = await timed(server, tool.argv(key), mib);
    return { seconds, mibPerS: mib / seconds, ofLinkPercent: rateMiB && (100 * mib) / seconds / rateMiB };
  },
};

async function timed(server, argv, mib) {
  const dir = freshDir();
  try {
    const { seconds } = await runCommand(server, argv, dir);
    const { size } = fs.statSync(path.join(dir, 'work/k.chk'));
    if (size !== mib * MiB) throw new Error(`${argv[0]} has restored ${size} bytes`);
    return seconds;
  } finally {
    fs.rmSync(dir, { recursive: true });
  }
}
