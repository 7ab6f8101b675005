// What a figure depends on, and who has measured it.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import { fileURLToPath } from 'node:url';

export function machine() {
  const git = (...args) =>
    spawnSync('git', args, {
      cwd: fileURLToPath(new URL('../..', import.meta.url)),
      encoding: 'utf8',
    }).stdout?.trim();
  return {
    date: new Date().toISOString().slice(0, 19),
    commit: git('rev-parse', '--short', 'HEAD') || 'unknown',
    changed: git('status', '--porcelain', 'src', 'bin', 'build.mjs') !== '',
    machine: {
      cores: os.availableParallelism(),
      kernel: os.release().split('.').slice(0, 2).join('.'),
      node: process.versions.node,
      memoryGiB: Math.round(os.totalmem() / 2 ** 30),
      /** Before the first round: what others did here. */
      loadAverage: Number(fs.readFileSync('/proc/loadavg', 'utf8').split(' ')[0]),
    },
  };
}
