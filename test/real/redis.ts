// A real Redis of Debian for one test: on a port of loopback of its own, with an append-only file, killed and started again
// as often as the test likes.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';

export interface RedisServer {
  readonly port: number;
  /** With a queue of this name. */
  url(name: string): string;
  cli(...args: readonly string[]): string;
  /** KILL, and a new one on the same files, or on none. */
  killAndRestart(how?: { readonly isEmpty: boolean }): Promise<void>;
  /** SIGSTOP: it keeps its connections open, and answers nothing any more. */
  freeze(): void;
  close(): Promise<void>;
}

const STARTS_WITHIN_MS = 20_000;

export async function openRedis(dir: string, options: readonly string[] = []): Promise<RedisServer> {
  const port = await freePort();
  const files = path.join(dir, 'redis');
  fs.mkdirSync(files, { recursive: true });
  const cli = (...args: readonly string[]): string =>
    spawnSync('redis-cli', ['-p', String(port), ...args], { encoding: 'utf8' }).stdout.trim();
  const start = async (): Promise<ChildProcess> => {
    const child = spawn(
      'redis-server',
      [
        '--port',
        String(port),
        '--bind',
        '127.0.0.1',
        '--dir',
        files,
        '--appendonly',
        'yes',
        '--save',
        '',
        ...options,
      ],
      { stdio: 'ignore' },
    );
    const deadline = performance.now() + STARTS_WITHIN_MS;
    while (!/PONG|NOAUTH/.test(cli('ping'))) {
      if (performance.now() > deadline) throw new Error('redis-server does not start');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return child;
  };
  const stop = async (child: ChildProcess): Promise<void> => {
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  };
  let server = await start();
  return {
    port,
    url: (name) => `redis://127.0.0.1:${port}/${name}`,
    cli,
    killAndRestart: async ({ isEmpty } = { isEmpty: false }) => {
      await stop(server);
      if (isEmpty)
        for (const name of fs.readdirSync(files)) fs.rmSync(path.join(files, name), { recursive: true });
      server = await start();
    },
    freeze: () => void server.kill('SIGSTOP'),
    close: () => stop(server),
  };
}

export async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}
