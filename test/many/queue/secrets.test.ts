// The password of a queue is the worker's alone, although the tasks run as its user.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest';
import { BIN } from '../../e2e/support.ts';
import { asNobody, programForAll, tmpdirForAll } from '../../support/other-user.ts';
import { testDir, type TestDir } from '../../support/work-dir.ts';

/** The user of the tests may be root, to whom nothing is closed. */
const user = process.getuid?.() === 0 ? asNobody : {};

let dir: TestDir;
beforeEach(() => {
  dir = testDir(tmpdirForAll());
  fs.chmodSync(dir.path, 0o777);
});
afterEach(() => dir.remove());

/** What a task of the same user finds there. */
function readAsTask(file: string): string {
  const { stdout, stderr } = spawnSync('cat', [file], { ...user, encoding: 'latin1' });
  return stdout + stderr;
}

/** Somebody who listens and says nothing. */
async function silentServer(): Promise<{ readonly port: number; readonly called: Promise<unknown> }> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => void sockets.add(socket.on('error', () => undefined)));
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const called = once(server, 'connection');
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { port: (server.address() as net.AddressInfo).port, called };
}

it.each([[['worker', '--notice=none']], [['queue', 'ui']]])(
  'nobody of its user reads it in the process of capture %j',
  async (command) => {
    const { port, called } = await silentServer();
    const env = {
      PATH: process.env['PATH'],
      HOME: dir.path,
      CAPTURE_NODE: process.execPath,
      CAPTURE_QUEUE: `redis://127.0.0.1:${port}/lab`,
      REDISCLI_AUTH: 's3cret',
    };
    const start = (file: string, args: readonly string[]): number => {
      const child = spawn(file, args, { ...user, env, cwd: dir.path, stdio: 'ignore' });
      onTestFinished(async () => {
        const exited = once(child, 'exit');
        child.kill('SIGKILL');
        await exited;
      });
      return child.pid ?? 0;
    };
    const pid = start(programForAll(BIN, dir.path), command);
    await called; // with the password
    for (const file of ['environ', 'mem', 'maps', 'auxv'])
      expect(readAsTask(`/proc/${pid}/${file}`), file).toContain('Permission denied');
    expect(spawnSync('ls', [`/proc/${pid}/fd`], { ...user, encoding: 'utf8' }).stderr).toContain('denied');

    // Of another process such a reader learns it.
    const other = start('sleep', ['60']);
    await expect.poll(() => readAsTask(`/proc/${other}/environ`)).toContain('s3cret');
  },
);
