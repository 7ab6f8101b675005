// The tools that can be measured: capture, and each rival whose programs are installed here.
import { spawnSync } from 'node:child_process';
import { archiver, awsArchiver } from '../rivals/archivers.mjs';
import { capture } from '../rivals/capture.mjs';
import { floor, floorOnSocket } from '../rivals/floor.mjs';
import { awsAtEnd, awsLoop, rcloneAtEnd, rcloneLoop } from '../rivals/loops.mjs';
import { lsyncd } from '../rivals/lsyncd.mjs';
import { parallel } from '../rivals/parallel.mjs';
import { rcloneMount } from '../rivals/rclone-mount.mjs';
import { twoNodes } from '../rivals/two-nodes.mjs';

const RIVALS = {
  'rclone-mount': rcloneMount,
  'rclone-loop': rcloneLoop,
  'aws-loop': awsLoop,
  archiver,
  'aws-archiver': awsArchiver,
  lsyncd,
  'rclone-at-end': rcloneAtEnd,
  'aws-at-end': awsAtEnd,
  'two-nodes': twoNodes,
  parallel,
  floor,
  'floor-socket': floorOnSocket,
};
const VERSIONS = {
  rclone: ['rclone', 'version'],
  aws: ['aws', '--version'],
  lsyncd: ['lsyncd', '--version'],
  zstd: ['zstd', '--version'],
  inotifywait: ['inotifywait', '--help'],
  fusermount3: ['fusermount3', '--version'],
  parallel: ['parallel', '--version'],
  'redis-server': ['redis-server', '--version'],
};

export const NOT_INSTALLED = 'not installed';

/** By the names that parts and `--tools` give them; `missing` says which program is not installed. */
export function knownTools() {
  const here = new Map(Object.entries(VERSIONS).map(([name, argv]) => [name, versionOf(argv)]));
  const rivals = Object.entries(RIVALS).map(([id, rival]) => [
    id,
    { ...rival, missing: rival.needs.find((program) => here.get(program) === undefined) },
  ]);
  return {
    tools: new Map([['capture', capture], ...rivals]),
    versions: Object.fromEntries([...here].map(([name, version]) => [name, version ?? NOT_INSTALLED])),
  };
}

/** The first number of what it says of itself. */
function versionOf([program, ...args]) {
  const { error, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' });
  return error === undefined ? (/\d+(\.\d+)+/.exec(`${stdout}${stderr}`)?.[0] ?? '?') : undefined;
}
