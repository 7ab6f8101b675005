import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { holdSocket } from '../../src/native/held-socket.ts';

let dir: string;
const servers: net.Server[] = [];
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-held-'));
});
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
  fs.rmSync(dir, { recursive: true, force: true });
});

async function listenAt(name: string): Promise<string> {
  const server = net.createServer((socket) => socket.end(name)).listen(path.join(dir, name));
  servers.push(server);
  await once(server, 'listening');
  return path.join(dir, name);
}

it('a socket that is held is connected to, whatever has been renamed to its name since', async () => {
  const [own, other] = [await listenAt('own'), await listenAt('other')];
  const held = holdSocket(own);
  try {
    expect(held.uid).toBe(process.getuid?.());
    fs.renameSync(other, own);
    const socket = net.connect(held.path).setEncoding('utf8');
    const [answer] = await once(socket, 'data');
    socket.destroy();
    expect(answer).toBe('own');
  } finally {
    held.release();
  }
});

it('a socket that is not there cannot be held', () => {
  expect(() => holdSocket(path.join(dir, 'none'))).toThrow('ENOENT');
});
