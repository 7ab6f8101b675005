// How long after the command the task runs its first instruction, beside `node -e 0` at the same moment. All have the
// same few environment variables: NODE_OPTIONS and NODE_EXTRA_CA_CERTS change how long each Node takes to start.
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { once } from 'node:events';
import { BUCKET, envOf } from '../lib/server.mjs';
import { BIN, captureOptions } from '../rivals/capture.mjs';

export const start = {
  name: 'start',
  title: "From the command to the task's first instruction",
  rounds: 10,
  tools: ['capture', 'rclone-mount', 'two-nodes'],
  columns: [
    { key: 'firstMs', title: 'first instruction', unit: 'ms', ratio: true },
    { key: 'times', title: 'times `node -e 0`' },
    { key: 'endMs', title: 'until all has ended', unit: 'ms', ratio: true },
  ],
  cases: () => [{ name: 'a directory', only: 'capture' }, { name: 'S3' }],
  measure: async ({ server, tool, item }) => {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-bench-'));
    try {
      fs.mkdirSync(path.join(dir, 'work'));
      const env = { ...envOf(server, dir), STATE: dir };
      const node = nodeMs(env);
      const { firstMs, endMs } = await timed({ server, tool, item, dir, env });
      return { firstMs, endMs, times: firstMs / node };
    } finally {
      spawnSync('sh', ['-c', tool.cleanUp ?? ':'], { env: { ...process.env, STATE: dir } });
      fs.rmSync(dir, { recursive: true });
    }
  },
};

async function timed({ server, tool, item, dir, env }) {
  await server.ask('reset');
  // The smallest program that knows the time: ns since the epoch.
  const task = ['date', '+%s%N'];
  const to = item.name === 'S3' ? `s3://${BUCKET}/run` : path.join(dir, 'store');
  const command =
    tool.name === 'capture'
      ? [BIN, ...captureOptions(to), '--', ...task]
      : ['bash', '-c', tool.script, tool.name, ...task];
  const startMs = Date.now();
  const child = spawn(command[0], command.slice(1), {
    cwd: path.join(dir, 'work'),
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text) => (said += text));
  await once(child, 'close');
  return { firstMs: Number(said) / 1e6 - startMs, endMs: Date.now() - startMs };
}

function nodeMs(env) {
  const startMs = performance.now();
  spawnSync(process.execPath, ['-e', '0'], { env });
  return performance.now() - startMs;
}
