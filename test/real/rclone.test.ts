// What docs/stores.md says of rclone: a directory store survives the way to another store and back, and a server of
// rclone's own is refused.
import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openPlace, type Place, type Run } from '../e2e/support.ts';
import { realStore } from './bucket.ts';
import { freePort } from './redis.ts';
import { until } from './slurm/cluster.ts';
import { isListening, stopDaemon } from './sshd.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const OPTIONS = ['-r', 'out.*', '-k', 'state.chk', '--index', '3', '--task-name', 'melt'];
/** Fails after the second step of its first attempt. */
const TASK = `
step=$(cat state.chk 2>/dev/null || echo 0)
echo "from $step"
while [ $step -lt 4 ]; do
  step=$((step + 1))
  seq $((step * 1000)) > out.$step
  echo $step > new.chk && mv new.chk state.chk
  [ $step != 2 ] || exit 9
done`;

function runOn(store: string): Run {
  place.freshWork();
  return place.capture(['--to', store, ...OPTIONS, '--checkpoint-settle', '0s', '--', 'sh', '-c', TASK]);
}

it('a directory that rclone has copied to a bucket and back has all that a task resumes from', async () => {
  const { AWS_CA_BUNDLE: _, ...inherited } = process.env;
  const env = {
    ...inherited,
    RCLONE_CONFIG: path.join(place.dir, 'none.conf'),
    RCLONE_CONFIG_LAB_TYPE: 's3',
    RCLONE_CONFIG_LAB_PROVIDER: 'Ceph',
    RCLONE_CONFIG_LAB_ENV_AUTH: 'true',
    RCLONE_CONFIG_LAB_ENDPOINT: process.env['AWS_ENDPOINT_URL'],
  };
  const copy = async (from: string, to: string): Promise<void> => {
    await promisify(execFile)('rclone', ['copy', from, to], { env });
  };
  const { bucket, prefix } = realStore();
  const remote = `lab:${bucket}/${prefix}/${path.basename(place.dir)}`;
  const back = path.join(place.dir, 'back');

  const first = runOn(place.store);
  expect(await first.status, first.stderr()).toBe(9);
  await copy(place.store, remote);
  await copy(remote, back);
  const second = runOn(back);
  expect(await second.status, second.stderr()).toBe(0);
  expect(second.stdout()).toBe('from 2\n');

  const verify = place.capture(['verify', back, '--array', '3']);
  expect(await verify.status, verify.stderr()).toBe(0);
  const gather = place.capture(['gather', back, 'results', '--array', '3']);
  expect(await gather.status, gather.stderr()).toBe(0);
  const expected = [1, 2, 3, 4].map((step) => `${step * 1000}`);
  const lastLines = expected.map((_, at) =>
    fs
      .readFileSync(place.at(`results/3/out.${at + 1}`), 'utf8')
      .trimEnd()
      .split('\n')
      .at(-1),
  );
  expect(lastLines).toEqual(expected);
});

it('rclone serve sftp is refused at the start, as it makes no hard links', async () => {
  const port = await freePort();
  const home = path.join(place.dir, 'home');
  const ssh = (name: string): string => path.join(home, '.ssh', name);
  fs.mkdirSync(path.join(home, '.ssh'), { recursive: true, mode: 0o700 });
  await promisify(execFile)('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', ssh('id_ed25519')]);
  const args = ['serve', 'sftp', '--addr', `127.0.0.1:${port}`, '--authorized-keys', ssh('id_ed25519.pub')];
  const keys = ['--key', ssh('id_ed25519')];
  const server = spawn('rclone', [...args, ...keys, place.dir], {
    env: { ...process.env, HOME: home },
    stdio: 'ignore',
  });
  try {
    await until(
      () => isListening(port),
      () => 'rclone does not listen',
    );
    const [type, key] = fs.readFileSync(ssh('id_ed25519.pub'), 'utf8').split(' ');
    fs.writeFileSync(ssh('known_hosts'), `[127.0.0.1]:${port} ${type} ${key}\n`);
    const url = `sftp://ada@127.0.0.1:${port}/melt`;
    const run = place.capture(['--to', url, ...OPTIONS, '--', 'true'], { HOME: home });
    expect(await run.status).toBe(69);
    expect(run.stderr()).toContain('the server says that it makes hard links, and makes none');
    expect(run.stderr()).toContain('for rclone see docs/stores.md');
  } finally {
    await stopDaemon(server);
  }
});
