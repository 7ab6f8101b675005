// How a launcher speaks with the sidecar that all tasks share: over a socket that may come late, break, or never be there.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { linkToShared, type SidecarLink } from '../../src/launch/sidecar-link.ts';
import type { FromSidecar } from '../../src/model/format/messages.ts';
import { MessageReader, messageText } from '../../src/model/format/shared-sidecar.ts';
import { asNobody, tmpdirForAll } from '../support/other-user.ts';
import { until } from './harness.ts';

let dir: string;
let socket: string;
const links: SidecarLink[] = [];
const servers: { close(): void }[] = [];
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(tmpdirForAll(), 'capture-link-'));
  socket = path.join(dir, 'sidecar');
});
afterEach(async () => {
  await Promise.all(links.splice(0).map((link) => link.close()));
  for (const server of servers.splice(0)) server.close();
  fs.rmSync(dir, { recursive: true, force: true });
});

interface Fake {
  readonly heard: unknown[];
  readonly connections: net.Socket[];
  say(message: object): void;
  close(): void;
}

async function listen(): Promise<Fake> {
  const heard: unknown[] = [];
  const connections: net.Socket[] = [];
  const server = net.createServer((connection) => {
    connections.push(connection);
    const reader = new MessageReader();
    connection.on('error', () => undefined);
    connection.setEncoding('utf8').on('data', (text: string) => heard.push(...reader.read(text)));
  });
  await new Promise<void>((resolve) => {
    server.listen(socket, resolve);
  });
  const fake: Fake = {
    heard,
    connections,
    say: (message) => connections.at(-1)?.write(messageText(message)),
    close: () => {
      for (const connection of connections) connection.destroy();
      server.close();
    },
  };
  servers.push(fake);
  return fake;
}

function link(withinMs?: number): { readonly made: SidecarLink; readonly heard: FromSidecar[] } {
  const heard: FromSidecar[] = [];
  const made = linkToShared(socket, (message) => heard.push(message), withinMs);
  links.push(made);
  return { made, heard };
}

describe('a link to a shared sidecar', () => {
  it('carries messages both ways, in order', async () => {
    const sidecar = await listen();
    const { made, heard } = link();
    made.send({ kind: 'task-started', pid: 1 });
    made.send({ kind: 'noticed', deadlineMs: 2 });
    await until('both arrive', () => sidecar.heard.length === 2);
    expect(sidecar.heard).toEqual([
      { kind: 'task-started', pid: 1 },
      { kind: 'noticed', deadlineMs: 2 },
    ]);
    sidecar.say({ kind: 'drain-takes', ms: 5 });
    sidecar.say({ kind: 'ended' });
    await until('both are heard', () => heard.length === 2);
    expect(heard.map(({ kind }) => kind)).toEqual(['drain-takes', 'ended']);
    expect(made.pid).toBeUndefined();
  });

  it('waits for a sidecar that is being started, and loses nothing that was said meanwhile', async () => {
    const { made } = link();
    made.send({ kind: 'task-started', pid: 7 });
    const sidecar = await listen();
    await until('it arrives', () => sidecar.heard.length === 1);
    expect(sidecar.heard).toEqual([{ kind: 'task-started', pid: 7 }]);
  });

  it('is gone when its connection breaks, after the last word was heard', async () => {
    const sidecar = await listen();
    const { made, heard } = link();
    await until('it is connected', () => sidecar.connections.length === 1);
    sidecar.connections[0]?.end(messageText({ kind: 'ended' }));
    expect(await made.gone).toEqual({ how: 'its connection broke', wasThere: true });
    expect(heard.map(({ kind }) => kind)).toEqual(['ended']);
    made.send({ kind: 'task-started', pid: 1 });
  });

  it.runIf(process.getuid?.() === 0)(
    'tells nothing to a process of another user that listens there',
    async () => {
      fs.chmodSync(dir, 0o777);
      const script = `require('node:net').createServer((one) => one.on('data', () => console.log('heard')))
      .listen(process.argv[1], () => { require('node:fs').chmodSync(process.argv[1], 0o777); console.log('listens') })`;
      const other = spawn(process.execPath, ['-e', script, socket], {
        ...asNobody,
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let said = '';
      other.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
      try {
        await until('it listens', () => said.includes('listens'));
        const { made } = link(200);
        made.send({ kind: 'task-started', pid: 1 });
        expect((await made.gone).wasThere).toBe(false);
        expect(said).not.toContain('heard');
      } finally {
        other.kill('SIGKILL');
      }
    },
  );

  it('says when nobody ever listens', async () => {
    expect(await link(50).made.gone).toEqual({ how: `nobody listens at ${socket}`, wasThere: false });
  });

  it('is ended by what is no message: whoever listens there is no sidecar', async () => {
    const sidecar = await listen();
    const { made } = link();
    await until('it is connected', () => sidecar.connections.length === 1);
    sidecar.connections[0]?.write('HTTP/1.1 400 Bad Request\r\n\r\n');
    expect((await made.gone).wasThere).toBe(true);
  });

  it('that nobody answers can be closed at once', async () => {
    const { made } = link();
    await made.close();
    expect((await made.gone).wasThere).toBe(false);
  });
});
