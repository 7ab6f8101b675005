// The script of examples/parallel-ssh with a real sshd and a real Redis: two machines, which are two ports of loopback, work
// on one queue. One of them loses its power, and the other one resumes its tasks.
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { processesWithEnvironment, sendSignal } from '../../src/native/processes.ts';
import { expectOutputOf } from '../examples/expected.ts';
import { resultOf, STEPS } from '../many/support.ts';
import { LOST_AFTER_MS, type Lab, openLab } from './lab.ts';
import { freePort } from './redis.ts';
import { until } from './slurm/cluster.ts';
import { isListening, PRIVSEP, stopDaemon } from './sshd.ts';

const SCRIPT = path.resolve('examples/parallel-ssh/start.sh');
const INDICES = [0, 1, 2, 3];

let lab: Lab;
let sshd: Sshd;
beforeEach(async () => {
  lab = await openLab();
  sshd = await openSshd(path.join(lab.place.dir, 'ssh'));
});
afterEach(async () => {
  await sshd?.close();
  await lab?.close();
});

it('workers that ssh has started share a queue, and outlive one of the machines', async () => {
  const { dir } = lab.place;
  const options = ['-r', 'result.dat', '-k', 'state.chk', '--memory', '64MiB'];
  await lab.submit('slow', ['--array', '0-3', ...options], [STEPS, '{index}', '1']);
  const machines = path.join(dir, 'machines.txt');
  fs.writeFileSync(machines, sshd.machines.map(({ port }) => `127.0.0.1:${port}\n`).join(''));
  for (const { home } of sshd.machines) {
    fs.mkdirSync(path.join(home, '.config/capture'), { recursive: true });
    const settings = {
      CAPTURE_QUEUE: lab.redis.url('lab'),
      CAPTURE_JOBS: '2',
      CAPTURE_LOST_AFTER: `${LOST_AFTER_MS}ms`,
      CAPTURE_NOTICE: 'none',
    };
    const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
    fs.writeFileSync(path.join(home, '.config/capture/worker.env'), lines.join(''));
  }
  const start = lab.place.exec([SCRIPT, machines], { PATH: `${sshd.bin}:${process.env['PATH']}` });
  expect(await start.status, start.stdout() + start.stderr()).toBe(0);

  await lab.untilStatus(({ running, workers }) => workers.length === 2 && running.length === 4);
  await until(
    () => lab.place.keys().some((key) => key.includes('state.chk')),
    () => 'a checkpoint is stored',
  );
  sshd.machines[0]?.losePower();
  await lab.untilAll('over');
  const result = lab.results();
  for (const index of INDICES) expect(result(index)).toBe(resultOf(index));
  expectOutputOf('parallel-ssh', (await lab.command('status', 'slow')).stdout());
});

interface Machine {
  readonly port: number;
  readonly home: string;
  /** SIGKILL to all that ssh has started there. */
  losePower(): void;
}

interface Sshd {
  readonly machines: readonly Machine[];
  /** With an ssh that has the keys of this test. */
  readonly bin: string;
  close(): Promise<void>;
}

/** A server with two ports, each of which is a machine with a home directory of its own. */
async function openSshd(dir: string): Promise<Sshd> {
  const bin = path.join(dir, 'bin');
  fs.mkdirSync(bin, { recursive: true, mode: 0o700 });
  const at = (name: string): string => path.join(dir, name);
  for (const key of ['host', 'user'])
    spawnSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', at(key)]);
  fs.copyFileSync(at('user.pub'), at('authorized_keys'));
  const machines = await Promise.all(
    ['one', 'two'].map(async (name): Promise<Machine> => {
      const home = at(name);
      fs.mkdirSync(path.join(home, 'tmp'), { recursive: true });
      const losePower = (): void => {
        for (const pid of processesWithEnvironment(`HOME=${home}`)) sendSignal(pid, 'SIGKILL');
      };
      return { port: await freePort(), home, losePower };
    }),
  );
  const PATH = `${path.resolve('bin')}:${process.env['PATH']}`;
  const matches = machines.map(
    ({ port, home }) => `Match LocalPort ${port}\n  SetEnv HOME=${home} TMPDIR=${home}/tmp PATH=${PATH}\n`,
  );
  const server = [
    ...machines.map(({ port }) => `ListenAddress 127.0.0.1:${port}`),
    `HostKey ${at('host')}`,
    `AuthorizedKeysFile ${at('authorized_keys')}`,
    'StrictModes no',
    'UsePAM no',
    'PermitRootLogin yes',
    'PasswordAuthentication no',
    `PidFile none`,
    ...matches,
  ];
  fs.writeFileSync(at('sshd_config'), `${server.join('\n')}\n`);
  const client = [
    `IdentityFile ${at('user')}`,
    `User ${os.userInfo().username}`,
    `UserKnownHostsFile ${at('known_hosts')}`,
    'StrictHostKeyChecking accept-new',
  ];
  fs.writeFileSync(at('ssh_config'), `${client.join('\n')}\n`);
  fs.writeFileSync(path.join(bin, 'ssh'), `#!/bin/sh\nexec /usr/bin/ssh -F ${at('ssh_config')} "$@"\n`, {
    mode: 0o755,
  });

  const hadPrivsep = fs.existsSync(PRIVSEP);
  if (!hadPrivsep) fs.mkdirSync(PRIVSEP, { mode: 0o755 });
  const daemon = spawn('/usr/sbin/sshd', ['-D', '-e', '-f', at('sshd_config')], {
    stdio: ['ignore', 'ignore', fs.openSync(at('sshd.log'), 'a')],
  });
  const close = async (): Promise<void> => {
    for (const machine of machines) machine.losePower();
    await stopDaemon(daemon);
    if (!hadPrivsep) fs.rmdirSync(PRIVSEP);
  };
  try {
    for (const { port } of machines)
      await until(
        () => isListening(port),
        () => `sshd listens: ${fs.readFileSync(at('sshd.log'), 'utf8')}`,
        20_000,
      );
  } catch (error) {
    await close();
    throw error;
  }
  return { machines, bin, close };
}
