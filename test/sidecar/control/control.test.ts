// The control socket as clients meet it: real sockets, real processes, other users where there can be some.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LONGEST_SOCKET_PATH_BYTES } from '../../../src/model/format/control.ts';
import {
  type Control,
  type ControlOptions,
  openControl,
  type Serve,
  socketPlaces,
} from '../../../src/sidecar/control/control.ts';
import { NOBODY, tmpdirForAll } from '../../support/other-user.ts';

const TOKEN = '0123456789ab-cdef';
let dir = '';
let open: Control[] = [];
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(tmpdirForAll(), 'capture-control-'));
  fs.mkdirSync(`${dir}/.capture`, { mode: 0o700 });
});
afterEach(async () => {
  await Promise.all(open.map((control) => control.close()));
  open = [];
  fs.rmSync(dir, { recursive: true, force: true });
});

const pong: Serve = () => Promise.resolve({ kind: 'watching' });
async function listen(options: Partial<ControlOptions> = {}): Promise<Control> {
  const control = await openControl({
    workdir: dir,
    runToken: TOKEN,
    path: undefined,
    serve: pong,
    ...options,
  });
  open.push(control);
  return control;
}

/** What comes back, until the other end closes. */
async function say(socketPath: string, text: string): Promise<string> {
  const socket = net.connect(socketPath);
  socket.on('error', () => undefined);
  let said = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (said += chunk));
  socket.write(text);
  await once(socket, 'close');
  return said;
}

describe('a control socket', () => {
  it('answers a request and closes the connection', async () => {
    const control = await listen();
    expect(await say(control.path, '{"kind":"ping"}\n')).toBe('{"kind":"watching"}\n');
  });

  it('is in the work directory, open to its own user only, and is removed when it is closed', async () => {
    const control = await listen();
    expect(control.path).toBe(`${dir}/.capture/0123456789ab.sock`);
    expect(fs.statSync(control.path).mode & 0o777).toBe(0o600);
    await control.close();
    expect(fs.readdirSync(`${dir}/.capture`)).toEqual([]);
  });

  it('refuses another user, whom the kernel names', async () => {
    const control = await listen({ uidOf: () => 12_345 });
    expect(await say(control.path, '{"kind":"ping"}\n')).toContain('"kind":"refused"');
  });

  it.runIf(process.getuid?.() === 0)('knows the user of the process that connects', async () => {
    const control = await listen({ path: `${dir}/control` });
    fs.chmodSync(dir, 0o755);
    fs.chmodSync(control.path, 0o666);
    const program = `const s = require('net').connect(process.argv[1]); s.on('data', (d) => process.stdout.write(d)); s.write('{"kind":"ping"}\\n')`;
    // Not spawnSync: the server is in this process.
    const ask = async (uid: number): Promise<string> => {
      const child = spawn(process.execPath, ['-e', program, control.path], {
        uid,
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let out = '';
      child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
      await once(child, 'close');
      return out;
    };
    expect(await ask(NOBODY)).toContain(`you are ${NOBODY}`);
    expect(await ask(0)).toBe('{"kind":"watching"}\n');
  });

  it.each(['nonsense\n', '{"kind":"rm"}\n', 'x'.repeat(70_000)])(
    'refuses what is not a request',
    async (text) => {
      const control = await listen();
      expect(await say(control.path, text)).toContain('no request');
    },
  );

  it('takes a request in pieces', async () => {
    const control = await listen();
    const socket = net.connect(control.path);
    for (const piece of ['{"ki', 'nd":"pi', 'ng"}\n']) {
      await new Promise((resolve) => socket.write(piece, resolve));
    }
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString()).toBe('{"kind":"watching"}\n');
    socket.destroy();
  });

  it('aborts the work when the client is gone', async () => {
    let isGone = false;
    const control = await listen({
      serve: async (_, signal) => {
        await once(signal, 'abort');
        isGone = true;
        return { kind: 'watching' };
      },
    });
    const socket = net.connect(control.path);
    socket.write('{"kind":"ping"}\n', () => socket.destroy());
    await expect.poll(() => isGone, { timeout: 30_000 }).toBe(true);
  });

  it('answers a hundred at once', async () => {
    const control = await listen();
    const answers = await Promise.all(
      Array.from({ length: 100 }, () => say(control.path, '{"kind":"ping"}\n')),
    );
    expect(new Set(answers)).toEqual(new Set(['{"kind":"watching"}\n']));
  });

  it('answers open requests with the present state before it closes', async () => {
    const asked = new Promise<void>((resolve) => {
      void listen({
        serve: async (_, signal) => {
          resolve();
          await once(signal, 'abort');
          return { kind: 'flushed', left: [], more: 7, incomplete: undefined, open: [] };
        },
      });
    });
    while (open.length === 0) await new Promise(setImmediate);
    const answer = say(open[0]?.path ?? '', '{"kind":"ping"}\n');
    const silent = net.connect(open[0]?.path ?? '');
    silent.on('error', () => undefined);
    await asked;
    await open[0]?.close();
    expect(await answer).toContain('"more":7');
  });

  it('replaces one whose process died, without a moment in which there is none', async () => {
    const script = `require('net').createServer().listen(process.argv[1], () => process.kill(process.pid, 'SIGKILL'))`;
    const place = socketPlaces(dir, TOKEN)[0] ?? '';
    spawnSync(process.execPath, ['-e', script, place]);
    expect(fs.lstatSync(place).isSocket()).toBe(true);
    const control = await listen();
    expect(control.path).toBe(place);
    expect(await say(place, '{"kind":"ping"}\n')).toBe('{"kind":"watching"}\n');
  });
});

describe('the place of a control socket', () => {
  it('is the directory for temporary files when the name beside the work would be too long', async () => {
    const deep = path.join(dir, 'd'.repeat(100));
    fs.mkdirSync(deep);
    const control = await listen({ workdir: deep });
    expect(control.path).toBe(`${os.tmpdir()}/capture-${process.getuid?.()}-0123456789ab/control`);
    expect(fs.statSync(path.dirname(control.path)).mode & 0o777).toBe(0o700);
    await control.close();
    expect(fs.existsSync(path.dirname(control.path))).toBe(false);
  });

  it('is never longer than the name of a socket can be, and never in bytes that Node cannot express', () => {
    for (let length = 1; length < 140; length += 1) {
      for (const place of socketPlaces(`/${'w'.repeat(length)}`, TOKEN, [`/${'t'.repeat(length)}`])) {
        expect(Buffer.byteLength(`${place}.new`)).toBeLessThanOrEqual(LONGEST_SOCKET_PATH_BYTES);
      }
    }
    expect(socketPlaces('/w\udcff', TOKEN, [])).toEqual([]);
  });

  it('is in no directory that others can enter, and not behind a link', async () => {
    fs.chmodSync(`${dir}/.capture`, 0o750);
    expect((await listen()).path).toBe(`${dir}/.capture/${TOKEN.slice(0, 12)}.sock`);
    expect(fs.statSync(`${dir}/.capture`).mode & 0o777).toBe(0o700);
    fs.renameSync(`${dir}/.capture`, `${dir}/elsewhere`);
    fs.symlinkSync(`${dir}/elsewhere`, `${dir}/.capture`);
    expect((await listen()).path).not.toContain(dir);
  });

  it('is removed where it was made, whatever has the name of its directory meanwhile', async () => {
    fs.mkdirSync(`${dir}/shared`);
    const control = await listen({ path: `${dir}/shared/control` });
    fs.renameSync(`${dir}/shared`, `${dir}/moved`);
    fs.mkdirSync(`${dir}/precious`);
    fs.writeFileSync(`${dir}/precious/control`, 'theirs');
    fs.symlinkSync(`${dir}/precious`, `${dir}/shared`);
    await control.close();
    expect(fs.readFileSync(`${dir}/precious/control`, 'utf8')).toBe('theirs');
    expect(fs.readdirSync(`${dir}/moved`)).toEqual([]);
  });

  it('that the user named is refused while another capture listens there', async () => {
    const named = `${dir}/control`;
    await listen({ path: named });
    await expect(listen({ path: named })).rejects.toMatchObject({ status: 64 });
  });

  it('that the user named is refused when it cannot be used', async () => {
    await expect(listen({ path: `${dir}/none/control` })).rejects.toMatchObject({
      status: 64,
      message: expect.stringContaining('--control'),
    });
  });
});
