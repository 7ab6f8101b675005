// A Redis of its own for one measurement, on a Unix socket, with the settings that docs/several-machines.md asks for.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const STARTS_WITHIN_MS = 20_000;

export async function startRedis(dir) {
  const socket = path.join(dir, 'redis.sock');
  const settings = { port: 0, unixsocket: socket, dir, appendonly: 'yes', save: '', logfile: '' };
  const argv = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const child = spawn('redis-server', argv, { stdio: 'ignore' });
  const exited = once(child, 'exit');
  const deadlineMs = performance.now() + STARTS_WITHIN_MS;
  while (!fs.existsSync(socket)) {
    if (child.exitCode !== null || performance.now() > deadlineMs)
      throw new Error('redis-server does not start');
    await pause(20);
  }
  return {
    pid: child.pid,
    url: (name) => `redis+unix://${socket}?name=${name}`,
    /** What its data take. */
    usedMiB: () => {
      const { stdout } = spawnSync('redis-cli', ['-s', socket, 'info', 'memory'], { encoding: 'utf8' });
      return Number(/^used_memory:(\d+)/m.exec(stdout)?.[1]) / 2 ** 20;
    },
    stop: async () => {
      child.kill('SIGTERM');
      await exited;
    },
  };
}
