// A node that runs containers, without a container engine: each container is a process tree in its own PID, mount
// and user namespaces, with a read-only root file system, a /tmp of its own, no capability and no way to one. As a
// kubelet does it: an emptyDir in memory that all share, signals to process 1, probes inside the namespaces.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { childrenOf, killTree, until } from '../e2e/support.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const TMPFS = 0x01021994;

export interface Container {
  /** Exit status as a kubelet reports it: 128+N for a signal. */
  readonly status: Promise<number>;
  output(): string;
  /** To its process 1. */
  signal(name: NodeJS.Signals): Promise<void>;
  /** As an exec probe: the status of a command in its namespaces, as its user. */
  exec(command: readonly string[]): number;
  /** Processes in it that have ended and that nobody waits for. */
  zombies(): number;
}

export interface ContainerOptions {
  readonly uid: number;
  readonly command: readonly string[];
  /** Without a writable /tmp. */
  readonly noTmp?: boolean;
  readonly env?: Readonly<Record<string, string>>;
}

export interface Node {
  /** The shared volume, as in all containers. */
  readonly work: string;
  readonly store: string;
  /** bin/capture as containers see it. */
  readonly capture: string;
  /** A new pod: its volume is empty. */
  freshVolume(): void;
  run(options: ContainerOptions): Container;
  close(): void;
}

/** Throws, and says why, where such containers cannot be made: a test that passes without them proves nothing. */
export function openNode(): Node {
  const tried = spawnSync('unshare', [
    '--mount',
    '--pid',
    '--fork',
    'setpriv',
    '--reuid=1',
    'unshare',
    '--user',
    'true',
  ]);
  if (tried.status !== 0) {
    throw new Error(
      `cannot make containers here (root, unshare and setpriv of util-linux, user namespaces): ${String(tried.stderr)}`,
    );
  }
  if (fs.statfsSync('/dev/shm').type !== TMPFS)
    throw new Error('/dev/shm is no tmpfs: there is no memory to share');
  const dir = fs.mkdtempSync('/dev/shm/capture-node-');
  fs.chmodSync(dir, 0o755);
  for (const name of ['capture', 'node']) fs.mkdirSync(path.join(dir, name));
  const store = path.join(dir, 'store');
  fs.mkdirSync(store);
  fs.chmodSync(store, 0o777);
  const running = new Set<ChildProcess>();
  let volumes = 0;
  let work = '';
  const freshVolume = (): void => {
    volumes += 1;
    work = path.join(dir, `volume-${volumes}`);
    fs.mkdirSync(work);
    fs.chmodSync(work, 0o777);
  };
  freshVolume();
  return {
    get work() {
      return work;
    },
    store,
    capture: path.join(dir, 'capture/bin/capture'),
    freshVolume,
    run: (options) => start(options, dir, work, running),
    close: () => {
      for (const { pid } of running) if (pid !== undefined) killTree(pid);
      fs.rmSync(dir, { recursive: true, force: true });
    },
  };
}

function start(
  { uid, command, noTmp = false, env = {} }: ContainerOptions,
  dir: string,
  work: string,
  running: Set<ChildProcess>,
): Container {
  const inside = [
    'set -e',
    'mount --make-rprivate /',
    // Neither this project nor Node need be where other users may go.
    `mount --bind ${ROOT} ${dir}/capture`,
    `mount --bind ${path.dirname(process.execPath)} ${dir}/node`,
    'mount -t proc proc /proc',
    ...(noTmp ? [] : ['mount -t tmpfs none /tmp']),
    'mount -o remount,ro,bind /',
    `cd ${work}`,
    `exec setpriv --reuid=${uid} --regid=${uid} --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \\`,
    '  unshare --user --map-current-user -- "$@"',
  ].join('\n');
  const child = spawn(
    'unshare',
    ['--mount', '--pid', '--fork', '--kill-child', '--', 'sh', '-c', inside, 'sh', ...command],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: `${dir}/node:${dir}/capture/bin:${process.env['PATH'] ?? ''}`, HOME: '/', ...env },
    },
  );
  running.add(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  const status = once(child, 'close').then(([code, signal]: unknown[]) => {
    running.delete(child);
    return typeof code === 'number' ? code : 128 + (os.constants.signals[signal as NodeJS.Signals] ?? 0);
  });
  const first = async (): Promise<number> => {
    await until(() => childrenOf(child.pid ?? 0).length > 0, 'process 1 of the container');
    return childrenOf(child.pid ?? 0)[0] ?? 0;
  };
  return {
    status,
    output: () => output,
    signal: async (name) => {
      process.kill(await first(), name);
    },
    exec: (words) => {
      const [pid] = childrenOf(child.pid ?? 0);
      if (pid === undefined) return 137;
      const into = ['--target', `${pid}`, '--user', '--mount', '--pid', `--setuid=${uid}`, `--setgid=${uid}`];
      const found = spawnSync('nsenter', [...into, '--', ...words], {
        env: { PATH: `${dir}/node:${dir}/capture/bin:${process.env['PATH'] ?? ''}` },
      });
      return found.status ?? 137;
    },
    zombies: () =>
      childrenOf(childrenOf(child.pid ?? 0)[0] ?? 0).filter((pid) =>
        / [ZX] /.test(fs.readFileSync(`/proc/${pid}/stat`, 'utf8')),
      ).length,
  };
}
