// The driver for SFTP on a real sshd: the contract of a store, connections that break at every step, requests that arrive
// late, and the keys of hosts and users.
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import pLimit from 'p-limit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  ABSENT,
  exactly,
  type OnTry,
  type Precondition,
  type Store,
} from '../../src/store/contract/store.ts';
import { openStore } from '../../src/store/open.ts';
import { openConnection } from '../../src/store/sftp/connection.ts';
import { readMeta } from '../../src/store/sftp/metadata.ts';
import { newKnown } from '../../src/store/sftp/place.ts';
import { locationOf } from '../../src/store/sftp/url.ts';
import { bytesOf, chunks, kindOf, listOf, newMeta, storeContract, textOf } from '../store/contract.ts';
import {
  type BreakingProxy,
  makeKey,
  know,
  openBreakingProxy,
  openSftpServer,
  type SftpServer,
} from './sftp-server.ts';

const MIB = 2 ** 20;

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** This process is a user whose home directory is that of the server's test. */
function become({ home }: SftpServer): () => void {
  const { HOME, SSH_AUTH_SOCK } = process.env;
  process.env['HOME'] = home;
  delete process.env['SSH_AUTH_SOCK'];
  return () => {
    process.env['HOME'] = HOME;
    if (SSH_AUTH_SOCK !== undefined) process.env['SSH_AUTH_SOCK'] = SSH_AUTH_SOCK;
  };
}

function openAt(url: string, budgetMs = 60_000, onTry?: OnTry): Promise<Store> {
  return openStore({ url, flags: [], unfenced: false }, { budgetMs, onTry });
}

storeContract('an SFTP store', async (onTry) => {
  const server = await openSftpServer();
  const leave = become(server);
  const store = await openAt(server.url('contract'), 60_000, onTry);
  const cleanup = async (): Promise<void> => {
    await store.close();
    leave();
    await server.close();
  };
  return { store, cleanup };
});

let server: SftpServer;
let proxy: BreakingProxy;
let leave: () => void;
beforeAll(async () => {
  server = await openSftpServer();
  proxy = await openBreakingProxy(server.port);
  leave = become(server);
  know(server.home, proxy.port, path.join(server.dir, 'host.pub'));
});
afterAll(async () => {
  leave?.();
  await proxy?.close();
  await server?.close();
});

const PARTS = [300_000, 1000];
interface Write {
  readonly name: string;
  /** What must be there before. */
  readonly before: (store: Store, key: string) => Promise<Precondition>;
  readonly write: (store: Store, key: string, precondition: Precondition) => Promise<string>;
  readonly bytes: Buffer;
}

const older = async (store: Store, key: string): Promise<Precondition> => {
  await store.put(key, Buffer.from('older'), { meta: newMeta() });
  return exactly(await store.head(key));
};
const SMALL = Buffer.from('newer');
const LARGE = Buffer.concat(PARTS.map((size, at) => Buffer.alloc(size, at + 1)));
const WRITES: readonly Write[] = [
  {
    name: 'a put that only creates',
    before: async () => ABSENT,
    write: (store, key, precondition) => kindOf(store.put(key, SMALL, { meta: newMeta(), precondition })),
    bytes: SMALL,
  },
  {
    name: 'a put that replaces one state',
    before: older,
    write: (store, key, precondition) => kindOf(store.put(key, SMALL, { meta: newMeta(), precondition })),
    bytes: SMALL,
  },
  {
    name: 'a put in parts',
    before: older,
    write: (store, key) =>
      kindOf(
        store.put(key, chunks(PARTS.map((size, at) => Buffer.alloc(size, at + 1))), { meta: newMeta() }),
      ),
    bytes: LARGE,
  },
  {
    name: 'a promotion',
    before: async (store, key) => {
      await store.put(`${key}.aside`, SMALL, { meta: newMeta() });
      return older(store, key);
    },
    write: (store, key, precondition) => kindOf(store.promote(`${key}.aside`, key, { precondition })),
    bytes: SMALL,
  },
  {
    name: 'a copy',
    before: async (store, key) => {
      await store.put(`${key}.aside`, SMALL, { meta: newMeta() });
      return older(store, key);
    },
    write: async (store, key) => {
      await store.copy(`${key}.aside`, key);
      await store.delete([`${key}.aside`]);
      return 'stored';
    },
    bytes: SMALL,
  },
];

describe('a connection that breaks', () => {
  it.each(WRITES)('at any answer to $name costs nothing', async ({ name, before, write, bytes }) => {
    const plain = await openAt(server.url('broken'));
    // Each session begins with the same packets.
    let packets = name === WRITES[0]?.name ? 1 : 9;
    for (let isReached = true; isReached; packets += 1) {
      const store = await openAt(server.url('broken', proxy.port));
      const key = `at-${packets}-${randomUUID()}`;
      const precondition = await before(plain, key);
      proxy.breakAfter(packets);
      expect(await write(store, key, precondition), `packet ${packets}`).toBe('stored');
      isReached = proxy.passed >= packets;
      proxy.breakAfter(Infinity);
      const got = await plain.get(key);
      expect(Buffer.compare(await bytesOf(got?.body), bytes), `packet ${packets}`).toBe(0);
      expect(got?.meta['push'], `packet ${packets}`).toBeDefined();
      expect(await listOf(plain, key), `packet ${packets}`).toEqual([key]);
      await store.close();
    }
    // Else nothing was broken.
    expect(packets).toBeGreaterThan(20);
    await plain.sweep('', () => true);
    expect(temporariesOf('broken')).toEqual([]);
    await plain.close();
  });

  it.each(WRITES.slice(1, 4))('and what of $name arrives late undoes nothing', async ({ before, write }) => {
    const plain = await openAt(server.url('late'));
    let packets = 9;
    for (let isReached = true; isReached; packets += 1) {
      const store = await openAt(server.url('late', proxy.port));
      const key = `at-${packets}-${randomUUID()}`;
      const precondition = await before(plain, key);
      proxy.breakAfter(packets, 'late');
      expect(await write(store, key, precondition), `packet ${packets}`).toBe('stored');
      isReached = proxy.passed >= packets;
      proxy.breakAfter(Infinity);
      const latest = { kind: 'is', tag: (await plain.head(key))?.tag ?? '' } as const;
      const put = plain.put(key, Buffer.from('latest'), { meta: newMeta(), precondition: latest });
      expect(await kindOf(put), `packet ${packets}`).toBe('stored');
      await proxy.release();
      expect(await textOf((await plain.get(key))?.body), `packet ${packets}`).toBe('latest');
      await store.close();
    }
    expect(packets).toBeGreaterThan(20);
    await plain.close();
  });

  it('again and again, under many puts and reads, loses and tears nothing', async () => {
    const store = await openAt(server.url('killed', proxy.port));
    const body = randomBytes(6 * MIB);
    const over = new AbortController();
    // So few that a server of any speed stores all; by what it has answered, as a slow one answers less in a second.
    const killing = (async () => {
      let kills = 0;
      for (; kills < 6 && !over.signal.aborted; kills += 1) {
        proxy.breakAfter(Infinity);
        await until(() => proxy.passed >= 50 || over.signal.aborted);
        server.killSessions();
      }
      return kills;
    })();
    const keys = Array.from({ length: 24 }, (_, at) => `of-${at}`);
    const puts = keys.map(async (key, at) => {
      const parts = [body, body.subarray(0, at * 1000)];
      return kindOf(store.put(key, chunks(parts), { meta: newMeta(), precondition: ABSENT }));
    });
    const outcomes = await Promise.all(puts).finally(() => over.abort());
    expect(new Set(outcomes)).toEqual(new Set(['stored']));
    expect(await killing).toBe(6);
    expect((await listOf(store, '')).toSorted()).toEqual(keys.toSorted());
    for (const [at, key] of keys.entries()) {
      const bytes = await bytesOf((await store.get(key))?.body);
      expect(Buffer.compare(bytes, Buffer.concat([body, body.subarray(0, at * 1000)])), key).toBe(0);
    }
    await store.close();
  });

  it('at any answer to a listing hides nothing, and names nothing twice', async () => {
    const plain = await openAt(server.url('listed'));
    const keys = ['a/1', 'a/2', 'b/c/1', 'b/c/2', 'd', 'e/1'];
    for (const key of keys) await plain.put(key, SMALL, { meta: newMeta() });
    let packets = 8;
    for (let isReached = true; isReached; packets += 1) {
      const store = await openAt(server.url('listed', proxy.port));
      proxy.breakAfter(packets);
      expect(await listOf(store, ''), `packet ${packets}`).toEqual(keys);
      isReached = proxy.passed >= packets;
      proxy.breakAfter(Infinity);
      await store.close();
    }
    expect(packets).toBeGreaterThan(18);
    await plain.close();
  });

  it('and one that hangs is given up, and the put goes on over another', async () => {
    const store = await openAt(server.url('hung'));
    await store.head('any');
    server.killSessions('SIGSTOP');
    expect(await kindOf(store.put('r', SMALL, { meta: newMeta(), precondition: ABSENT }))).toBe('stored');
    server.killSessions();
    expect(await textOf((await store.get('r'))?.body)).toBe('newer');
    await store.close();
  });

  it('or hangs is left at once by whoever has a deadline', async () => {
    const store = await openAt(server.url('left'));
    await store.put('r', Buffer.alloc(8 * MIB), { meta: newMeta() });
    const stop = new AbortController();
    const { signal } = stop;
    const body = (await store.get('r', { signal }))?.body[Symbol.asyncIterator]();
    await body?.next();
    server.killSessions('SIGSTOP');
    const asked = [
      store.put('r', LARGE, { meta: newMeta(), signal }),
      store.head('r', signal),
      store.get('r', { signal }),
      store.delete(['r'], signal),
      store.copy('r', 's', signal),
      store.promote('r', 's', { signal }),
      store.sweep('', () => true, signal),
      store.list('', signal)[Symbol.asyncIterator]().next(),
      store.folders('a/', signal),
      (async () => {
        for (;;) if ((await body?.next())?.done !== false) return;
      })(),
    ];
    const settled = Promise.allSettled(asked);
    const startMs = performance.now();
    setTimeout(() => stop.abort(new Error('the deadline')), 100);
    for (const one of await settled) expect(one).toMatchObject({ status: 'rejected', reason: signal.reason });
    expect(performance.now() - startMs).toBeLessThan(5000);
    server.killSessions();
    await store.close();
  });

  it('breaks a body that is being read: it throws, and never looks complete', async () => {
    const store = await openAt(server.url('read'));
    await store.put('r', Buffer.alloc(8 * MIB, 7), { meta: newMeta() });
    const got = await store.get('r');
    let seenBytes = 0;
    const read = async (): Promise<void> => {
      for await (const chunk of got?.body ?? []) {
        seenBytes += chunk.length;
        server.killSessions();
      }
    };
    await expect(read()).rejects.toMatchObject({ kind: 'transient' });
    expect(seenBytes).toBeLessThan(8 * MIB);
    expect((await bytesOf((await store.get('r'))?.body)).length).toBe(8 * MIB);
    await store.close();
  });
});

it('a server that has lost what it had confirmed stores nothing', async () => {
  const store = await openAt(server.url('restarted'), 500);
  let sentBytes = 0;
  const body = (async function* parts() {
    yield Buffer.alloc(MIB, 1);
    await until(() => sentBytes === MIB);
    const temporary = temporariesOf('restarted').find((name) => !name.endsWith('.meta')) ?? '';
    const file = fs.openSync(path.join(server.at('restarted'), '.capture-store/tmp', temporary), 'r+');
    fs.writeSync(file, Buffer.alloc(4096), 0, 4096, 8192);
    fs.closeSync(file);
    server.killSessions();
    yield Buffer.alloc(1000, 2);
  })();
  const put = store.put('r', body, { meta: newMeta(), onSent: (bytes) => (sentBytes += bytes) });
  await expect(put).rejects.toThrow('the server has lost bytes that it had confirmed');
  expect(await store.head('r')).toBeUndefined();
  await store.close();
});

describe('a server', () => {
  it.each(['hardlink', 'posix-rename'])('without %s is refused at the start', async (extension) => {
    const without = await openSftpServer(`internal-sftp -P ${extension}`);
    const leaveIt = become(without);
    const store = await openAt(without.url('any'));
    await expect(store.head('any')).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringContaining(`the server lacks ${extension}@openssh.com`),
      hint: expect.stringContaining('OpenSSH'),
    });
    await store.close();
    leaveIt();
    await without.close();
  });

  it('without SFTP is refused', async () => {
    const without = await openSftpServer('/nowhere/sftp-server');
    const leaveIt = become(without);
    const store = await openAt(without.url('any'));
    await expect(store.head('any')).rejects.toThrow(/the server has no SFTP, or not for this user/);
    await store.close();
    leaveIt();
    await without.close();
  });

  it('that cannot sync, copy or tell its room stores all the same', async () => {
    const without = await openSftpServer('internal-sftp -P fsync,copy-data,statvfs,limits');
    const leaveIt = become(without);
    const store = await openAt(without.url('plain'));
    const meta = newMeta();
    await store.put('a', LARGE, { meta });
    await store.copy('a', 'b');
    const got = await store.get('b');
    expect(got?.meta).toEqual(meta);
    expect(Buffer.compare(await bytesOf(got?.body), LARGE)).toBe(0);
    await store.close();
    leaveIt();
    await without.close();
  });
});

function temporariesOf(name: string): readonly string[] {
  return fs
    .readdirSync(path.join(server.at(name), '.capture-store/tmp'))
    .filter((one) => !one.endsWith('.going'));
}

describe('states of one size, written in one second', () => {
  it('by many writers at once: readers see the bytes of each with its own metadata', async () => {
    const stores = await Promise.all(Array.from({ length: 4 }, () => openAt(server.url('many'))));
    const reader = await openAt(server.url('many'));
    const over = new AbortController();
    const write = async (store: Store, nth: number): Promise<void> => {
      for (let round = 0; round < 10; round += 1) {
        const letter = 'abcdefgh'[(nth * 3 + round) % 8] ?? '';
        await store.put('one', Buffer.alloc(50_000, letter), { meta: { ...newMeta(), letter } });
      }
    };
    const writes = Promise.all(stores.map(write)).finally(() => over.abort());
    let reads = 0;
    for (; !over.signal.aborted; reads += 1) {
      const got = await reader.get('one');
      const bytes = await bytesOf(got?.body);
      if (got !== undefined) expect(new Set(bytes)).toEqual(new Set([got.meta['letter']?.charCodeAt(0)]));
    }
    await writes;
    expect(reads).toBeGreaterThan(5);
    await Promise.all([...stores, reader].map((store) => store.close()));
  });

  it('one after the other: who opened the first finds its metadata, or none', async () => {
    const { directory, ...target } = locationOf(server.url('reused'));
    const place = {
      connection: openConnection(target),
      directory,
      url: server.url('reused'),
      budgetMs: 0,
      onTry: undefined,
      known: newKnown(directory),
      inTurn: pLimit(1),
      givenUp: new Map<string, Promise<void>>(),
    };
    const store = await openAt(server.url('reused'));
    const session = await place.connection.session();
    const first = newMeta();
    // At the beginning of a second of the server, whose clock is ours.
    await until(() => new Date().getMilliseconds() < 100);
    await store.put('r', Buffer.from('first'), { meta: first });
    const opened = await session.fstat(await session.open(`${directory}/r`, 'r'));
    await store.delete(['r']);
    await store.put('r', Buffer.from('other'), { meta: newMeta() });
    expect([first, undefined]).toContainEqual(await readMeta(session, place, 'r', opened));
    place.connection.close();
    await store.close();
  });
});

it('a promotion that finds its name taken leaves the object with its metadata', async () => {
  const store = await openAt(server.url('unpromoted'));
  const meta = { ...newMeta(), md5: 'abc' };
  await store.put('aside', SMALL, { meta });
  await store.put('good', Buffer.from('older'), { meta: newMeta() });
  expect(await kindOf(store.promote('aside', 'good', { precondition: ABSENT }))).toBe('exists');
  expect(await store.head('aside')).toMatchObject({ meta, tag: expect.any(String) });
  await store.close();
});

describe('a put that was killed', () => {
  it('leaves a temporary, which the sweep of its key removes, and of no other', async () => {
    const store = await openAt(server.url('swept'));
    const body = (async function* parts() {
      yield Buffer.alloc(5 * MIB);
      server.killSessions();
      // Nobody can tidy up.
      await store.close();
      throw new Error('killed');
    })();
    await expect(store.put('mine', body, { meta: newMeta() })).rejects.toThrow('killed');
    expect(temporariesOf('swept')).toHaveLength(2);
    const next = await openAt(server.url('swept'));
    await next.sweep('', (key) => key !== 'mine');
    expect(temporariesOf('swept')).toHaveLength(2);
    await next.sweep('', (key) => key === 'mine');
    expect(temporariesOf('swept')).toEqual([]);
    await next.close();
  });
});

it('a sweep removes metadata that an ended process had to leave, once nobody can need them', async () => {
  const store = await openAt(server.url('going'));
  await store.put('r', SMALL, { meta: newMeta() });
  const ours = path.join(server.at('going'), '.capture-store');
  const now = Math.floor(Date.now() / 1000);
  const names = [now - 10_000, now].map((mtimeS) => `.capture-store/meta/ab/${'ab'.repeat(16)}.5.${mtimeS}`);
  fs.mkdirSync(path.join(ours, 'meta/ab'), { recursive: true });
  for (const name of names) fs.writeFileSync(path.join(server.at('going'), name), '{}');
  const list = path.join(ours, 'tmp/one.going');
  fs.writeFileSync(list, `${names.join('\n')}\n../../r\n`);
  fs.utimesSync(list, now - 5000, now - 5000);
  await store.sweep('', () => false);
  expect(fs.readdirSync(path.join(ours, 'meta/ab'))).toEqual([path.basename(names[1] ?? '')]);
  expect(fs.existsSync(list)).toBe(true);
  expect((await store.head('r'))?.sizeBytes).toBe(5);
  await store.close();
});

describe('a store that goes away', () => {
  it('is lost, and no put makes it again', async () => {
    const store = await openAt(server.url('gone'), 0);
    await store.put('a', SMALL, { meta: newMeta() });
    fs.renameSync(server.at('gone'), server.at('moved'));
    await expect(store.head('a')).rejects.toMatchObject({ kind: 'lost' });
    await expect(store.put('b', SMALL, { meta: newMeta() })).rejects.toMatchObject({ kind: 'lost' });
    expect(fs.existsSync(server.at('gone'))).toBe(false);
    fs.renameSync(server.at('moved'), server.at('gone'));
    expect((await store.head('a'))?.sizeBytes).toBe(5);
    await store.close();
  });

  it('reads what a user has put there, and follows a link to a file', async () => {
    fs.mkdirSync(server.at('staged/deep'), { recursive: true });
    fs.writeFileSync(server.at('staged/deep/in.dat'), 'of a user');
    fs.symlinkSync('deep/in.dat', server.at('staged/linked'));
    const store = await openAt(server.url('staged'));
    expect(await listOf(store, '')).toEqual(['deep/in.dat', 'linked']);
    expect(await textOf((await store.get('linked'))?.body)).toBe('of a user');
    expect((await store.head('deep/in.dat'))?.meta).toEqual({});
    await expect(store.put('deep', SMALL, { meta: newMeta() })).rejects.toMatchObject({ kind: 'impossible' });
    await expect(store.put('linked/x', SMALL, { meta: newMeta() })).rejects.toMatchObject({
      kind: 'impossible',
    });
    await store.close();
  });
});

describe('the keys of hosts and users', () => {
  const file = (name: string): string => path.join(server.home, '.ssh', name);
  const hostKey = (): string => fs.readFileSync(path.join(server.dir, 'host.pub'), 'utf8');
  const name = (): string => `[127.0.0.1]:${server.port}`;

  /** Why a store cannot be opened, with these files in ~/.ssh instead of those that are there. */
  async function refusedWith(known: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
    const kept = fs.readFileSync(file('known_hosts'));
    const before = { ...process.env };
    fs.writeFileSync(file('known_hosts'), known);
    Object.assign(process.env, env);
    const store = await openAt(server.url('keys'), 0);
    try {
      await store.head('any');
      return 'it works';
    } catch (error) {
      expect(error).toMatchObject({ status: 69 });
      return `${(error as Error).message}; try: ${String(Reflect.get(error as object, 'hint'))}`;
    } finally {
      await store.close();
      fs.writeFileSync(file('known_hosts'), kept);
      for (const added of Object.keys(env)) delete process.env[added];
      Object.assign(process.env, before);
    }
  }

  it('a host that is known is used, also by a hashed name, or without its port', async () => {
    const [type, key] = hostKey().split(' ');
    expect(await refusedWith(`${name()} ${type} ${key}\n`)).toBe('it works');
    expect(await refusedWith(`127.0.0.1 ${type} ${key}\n`)).toBe('it works');
    const hashed = path.join(server.dir, 'hashed');
    fs.writeFileSync(hashed, `${name()} ${type} ${key}\n`);
    spawnSync('ssh-keygen', ['-H', '-f', hashed]);
    const text = fs.readFileSync(hashed, 'utf8');
    expect(text).toMatch(/^\|1\|/);
    expect(await refusedWith(text)).toBe('it works');
  });

  it('a host that is unknown, changed or revoked is refused', async () => {
    const [type, key] = hostKey().split(' ');
    makeKey(path.join(server.dir, 'other'));
    const [, other] = fs.readFileSync(path.join(server.dir, 'other.pub'), 'utf8').split(' ');
    expect(await refusedWith('')).toMatch(
      /the host is unknown: no known_hosts has its key, ssh-ed25519 SHA256:\S+; try: ask [^]*; then ssh-keyscan -p \d+ 127\.0\.0\.1 >> /,
    );
    expect(await refusedWith(`@cert-authority * ${type} ${key}\n`)).toMatch(/the host is unknown/);
    expect(await refusedWith(`${name()} ${type} ${other}\n`)).toMatch(
      /another key than known_hosts says[^]*; then ssh-keygen -R '\[127\.0\.0\.1\]:\d+'/,
    );
    expect(await refusedWith(`${name()} ${type} ${key}\n@revoked * ${type} ${key}\n`)).toMatch(/is revoked/);
  });

  it('no key, a key with a passphrase, and one that others can read are refused, each with what to do', async () => {
    const known = fs.readFileSync(file('known_hosts'), 'utf8');
    const home = path.join(server.dir, 'other-home');
    fs.mkdirSync(path.join(home, '.ssh'), { recursive: true });
    const inHome = async (): Promise<string> => {
      fs.writeFileSync(path.join(home, '.ssh/known_hosts'), known);
      return refusedWith(known, { HOME: home });
    };
    expect(await inHome()).toMatch(/there is no key to sign in with; try: make a key \(ssh-keygen\)/);
    makeKey(path.join(home, '.ssh/id_ed25519'), 'secret words');
    expect(await inHome()).toMatch(/id_ed25519 has a passphrase: add it to an agent/);
    makeKey(path.join(home, '.ssh/id_other'));
    expect(await inHome()).toMatch(/accepts none of these keys: 1 of ~\/\.ssh; try: \S+ has a passphrase/);
    fs.rmSync(path.join(home, '.ssh/id_ed25519'));
    fs.chmodSync(path.join(home, '.ssh/id_other'), 0o644);
    expect(await inHome()).toMatch(/others can read \S+id_other, so it is not used: chmod 600/);
  });

  it('a key with a passphrase is used through an agent', async () => {
    const home = path.join(server.dir, 'agent-home');
    const key = path.join(home, '.ssh/id_ed25519');
    fs.mkdirSync(path.dirname(key), { recursive: true });
    makeKey(key, 'secret words');
    fs.appendFileSync(path.join(server.dir, 'authorized_keys'), fs.readFileSync(`${key}.pub`));
    fs.copyFileSync(file('known_hosts'), path.join(home, '.ssh/known_hosts'));
    const socket = path.join(server.dir, 'agent');
    const agent = spawn('ssh-agent', ['-D', '-a', socket]);
    try {
      await until(() => fs.existsSync(socket));
      const askpass = path.join(server.dir, 'askpass');
      fs.writeFileSync(askpass, '#!/bin/sh\necho secret words\n', { mode: 0o700 });
      const env = {
        ...process.env,
        SSH_AUTH_SOCK: socket,
        SSH_ASKPASS: askpass,
        SSH_ASKPASS_REQUIRE: 'force',
      };
      expect(spawnSync('ssh-add', [key], { env }).status).toBe(0);
      const known = fs.readFileSync(file('known_hosts'), 'utf8');
      expect(await refusedWith(known, { HOME: home, SSH_AUTH_SOCK: socket })).toBe('it works');
    } finally {
      agent.kill();
    }
  });

  it('a server that does not speak SSH is named', async () => {
    const http = createServer((_, response) => response.end()).listen(0, '127.0.0.1');
    await once(http, 'listening');
    const port = (http.address() as AddressInfo).port;
    const store = await openAt(server.url('none', port), 0);
    await expect(store.head('any')).rejects.toThrow(/sftp:\/\/\S+: the server does not speak SSH/);
    await store.close();
    http.closeAllConnections();
    http.close();
  });

  it('a server that is not there is tried again until the budget ends, and named', async () => {
    const store = await openAt(server.url('none', 1), 500);
    await expect(store.head('any')).rejects.toMatchObject({
      kind: 'transient',
      message: expect.stringMatching(/cannot reach the server \(ECONNREFUSED\)/),
    });
    await store.close();
  });
});
