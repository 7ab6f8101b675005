// A real sshd on loopback that speaks only SFTP, with keys of its own, and the home directory of a user who knows it. A
// proxy before it can break connections. Nothing of it is left when it is closed.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { childrenOf, killTree } from '../e2e/support.ts';
import { signalTree } from './lab.ts';
import { freePort } from './redis.ts';
import { until } from './slurm/cluster.ts';
import { isListening, PRIVSEP, stopDaemon } from './sshd.ts';

export interface SftpServer {
  readonly port: number;
  /** In it: `home`, with the keys of the user, and `store`. */
  readonly dir: string;
  readonly home: string;
  /** Of a directory in `store`. */
  url(name: string, port?: number): string;
  /** The path of a directory in `store`. */
  at(name: string): string;
  /** SIGKILL, or another signal, to whatever serves a connection now. */
  killSessions(signal?: NodeJS.Signals): void;
  close(): Promise<void>;
}

/** `subsystem`: what serves SFTP, with its options (sftp-server(8)). */
export async function openSftpServer(subsystem = 'internal-sftp'): Promise<SftpServer> {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-sftp-'));
  const at = (name: string): string => path.join(dir, name);
  const home = at('home');
  fs.mkdirSync(path.join(home, '.ssh'), { recursive: true, mode: 0o700 });
  makeKey(at('host'));
  makeKey(path.join(home, '.ssh/id_ed25519'));
  fs.copyFileSync(path.join(home, '.ssh/id_ed25519.pub'), at('authorized_keys'));
  const port = await freePort();
  const config = [
    `ListenAddress 127.0.0.1:${port}`,
    `HostKey ${at('host')}`,
    `AuthorizedKeysFile ${at('authorized_keys')}`,
    'StrictModes no',
    'UsePAM no',
    'PermitRootLogin yes',
    'PasswordAuthentication no',
    'MaxStartups 100',
    'PidFile none',
    `Subsystem sftp ${subsystem}`,
  ];
  fs.writeFileSync(at('sshd_config'), `${config.join('\n')}\n`);
  know(home, port, at('host.pub'));
  fs.mkdirSync(PRIVSEP, { recursive: true, mode: 0o755 });
  const daemon = spawn('/usr/sbin/sshd', ['-D', '-e', '-f', at('sshd_config')], {
    stdio: ['ignore', 'ignore', fs.openSync(at('sshd.log'), 'a')],
  });
  await until(
    () => isListening(port),
    () => fs.readFileSync(at('sshd.log'), 'utf8'),
  );
  return {
    port,
    dir,
    home,
    at: (name) => path.join(at('store'), name),
    url: (name, by = port) => `sftp://${os.userInfo().username}@127.0.0.1:${by}${at('store')}/${name}`,
    killSessions: (signal) => killSessions(daemon, signal),
    close: async () => {
      killSessions(daemon);
      await stopDaemon(daemon);
      fs.rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** A new key without a passphrase, unless one is given. */
export function makeKey(file: string, passphrase = ''): void {
  const { status, stderr } = spawnSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', passphrase, '-f', file]);
  if (status !== 0) throw new Error(`ssh-keygen: ${stderr.toString()}`);
}

/** Writes the key of the server into the user's known_hosts. */
export function know(home: string, port: number, key: string): void {
  const [type, text] = fs.readFileSync(key, 'utf8').split(' ');
  fs.appendFileSync(path.join(home, '.ssh/known_hosts'), `[127.0.0.1]:${port} ${type} ${text}\n`);
}

/** All below the daemon. */
function killSessions(daemon: ChildProcess, signal?: NodeJS.Signals): void {
  for (const child of childrenOf(daemon.pid ?? 0))
    if (signal === undefined) killTree(child);
    else signalTree(child, signal);
}

export interface BreakingProxy {
  readonly port: number;
  /** How many packets of the server have come since the last `breakAfter`. */
  readonly passed: number;
  /**
   * Breaks the connection instead of passing on this packet of the server: what the client asked for last is done, but
   * not answered. With `late`, what the client asks for after this packet is done only at `release`.
   */
  breakAfter(packets: number, late?: 'late'): void;
  /** Hands the server what was held, and resolves when it has closed the connection. */
  release(): Promise<void>;
  close(): Promise<void>;
}

/** Between a client and the server: breaks one connection where it is asked to. */
export async function openBreakingProxy(to: number): Promise<BreakingProxy> {
  let left = Infinity;
  let passed = 0;
  let isLate = false;
  const held: { readonly upstream: net.Socket; readonly requests: Buffer[] }[] = [];
  const sockets = new Set<net.Socket>();
  const server = net.createServer((client) => {
    const upstream = net.connect(to, '127.0.0.1');
    let holding: Buffer[] | undefined;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
    }
    client.on('close', () => holding ?? upstream.destroy());
    upstream.on('close', () => client.destroy());
    client.on('data', (bytes) => {
      if (holding === undefined) upstream.write(bytes);
      else {
        holding.push(bytes);
        // Enough of it is sent to be obeyed; the client must learn that nothing will be answered.
        setTimeout(() => client.destroy(), 20);
      }
    });
    upstream.on('data', (bytes) => {
      passed += 1;
      left -= 1;
      if (left > 0 || (left === 0 && isLate)) client.write(bytes);
      if (left !== 0) return;
      left = Infinity;
      if (isLate) {
        holding = [];
        held.push({ upstream, requests: holding });
      } else client.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as net.AddressInfo).port,
    get passed() {
      return passed;
    },
    breakAfter: (packets, late) => {
      left = packets;
      passed = 0;
      isLate = late !== undefined;
    },
    release: async () => {
      for (const { upstream, requests } of held.splice(0)) {
        if (upstream.destroyed) continue;
        const closed = once(upstream, 'close');
        for (const bytes of requests) upstream.write(bytes);
        upstream.end();
        upstream.resume();
        await closed;
      }
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
