// What reaches the store and its readers if gpg fails in each way. A script stands in for gpg; real/gpg.test.ts has gpg itself.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CaptureError } from '../../src/model/errors.ts';
import type { SealSettings } from '../../src/model/format/settings.ts';
import { isZombie, readStat } from '../../src/native/processes.ts';
import { CorruptError } from '../../src/restore/failure.ts';
import { objectStream } from '../../src/restore/object-stream.ts';
import { Gpg, only } from '../../src/seal/gpg.ts';
import { newIndexKey, openSealKeys, SealKeys } from '../../src/seal/keys.ts';
import { sealedStore } from '../../src/seal/sealed-store.ts';
import type { Store } from '../../src/store/contract/store.ts';
import { until } from '../e2e/support.ts';
import { memoryStore, type MemoryStore } from '../support/memory-store.ts';

const SCRIPT = path.resolve(import.meta.dirname, '../support/fake-gpg.sh');
const FINGERPRINT = 'B93D80E6A740C44990860E0DA637541E26951300';
const TO = [`gpg:${FINGERPRINT}`];
const OBJECT = 'r.dat.7.gpg';
const META = { push: '1fd1a0e3-0a43-4c41-9a3a-0a0a6a1b2c3d' };
const MiB = 2 ** 20;
const NEVER = new AbortController().signal;
const STALL_MS = 400;

let dir: string;
let inner: MemoryStore;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-gpg-'));
  fs.symlinkSync(SCRIPT, path.join(dir, 'gpg'));
  inner = memoryStore();
});
afterEach(async () => {
  await until(() => !pids().some(isThere), 'the end of each gpg');
  fs.rmSync(dir, { recursive: true });
});

const pids = (): readonly number[] => {
  const file = path.join(dir, 'pids');
  return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').filter(Boolean).map(Number) : [];
};
const isThere = (pid: number): boolean => {
  const stat = readStat(pid);
  return stat !== undefined && !isZombie(stat);
};

const envOf = (how: string): NodeJS.ProcessEnv => ({
  ...process.env,
  PATH: `${dir}:${process.env['PATH']}`,
  FAKE_GPG: how,
  FAKE_KEYS: path.join(dir, 'keys'),
  FAKE_PIDS: path.join(dir, 'pids'),
});
const gpgThat = (how: string): Gpg =>
  new Gpg(envOf(how), { stallMs: ['hangs', 'lingers'].includes(how) ? STALL_MS : 600_000 });
const storeWith = (gpg: Gpg): Store =>
  sealedStore(inner, { keys: new SealKeys(TO, [], gpg), reader: 'run', indexKey: newIndexKey() });

async function* partsOf(bytes: Buffer, partBytes = 8 * MiB): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += partBytes) yield bytes.subarray(at, at + partBytes);
}

const CONTENT = Buffer.alloc(20 * MiB, 'energy of the melt\n');

async function readAll(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const FAILURES: readonly [how: string, why: string][] = [
  ['dies', 'was ended by SIGKILL'],
  ['hangs', 'no progress'],
  ['lingers', 'no progress'],
  ['leaves early', 'before it had read everything'],
  ['is silent', 'no message'],
  ['says nothing', 'no message'],
  ['fails', 'gpg: no space'],
];

describe('nothing is stored by a gpg that', () => {
  it.each(FAILURES)('%s, of parts', async (how, why) => {
    const put = storeWith(gpgThat(how)).put(OBJECT, partsOf(CONTENT), { meta: META });
    await expect(put).rejects.toThrow(why);
    expect(inner.objects.size).toBe(0);
  });

  it.each(FAILURES)('%s, of few bytes', async (how, why) => {
    const put = storeWith(gpgThat(how)).put(OBJECT, CONTENT.subarray(0, MiB), { meta: META });
    await expect(put).rejects.toThrow(why);
    expect(inner.objects.size).toBe(0);
  });

  it('waits for bytes of a file that can no longer be read, and is then killed', async () => {
    const torn = async function* torn(): AsyncGenerator<Uint8Array> {
      yield CONTENT.subarray(0, 8 * MiB);
      throw new Error('the file has changed');
    };
    const put = storeWith(gpgThat('')).put(OBJECT, torn(), { meta: META });
    await expect(put).rejects.toThrow(/^the file has changed$/);
    expect(inner.objects.size).toBe(0);
  });

  it('is killed when the put is given up', async () => {
    const stop = new AbortController();
    const gpg = new Gpg(envOf('hangs'), { stallMs: 600_000 });
    const put = storeWith(gpg).put(OBJECT, partsOf(CONTENT), { meta: META, signal: stop.signal });
    await until(() => pids().length > 0, 'gpg');
    stop.abort(new Error('given up'));
    await expect(put).rejects.toThrow(/^given up$/);
    expect(inner.objects.size).toBe(0);
  });
});

it('parts are of one size, which S3 takes, and each is released once gpg has read it', async () => {
  const released: Uint8Array[] = [];
  const sizes: number[] = [];
  const given = [
    ...Array.from({ length: 3 }, (_, n) => CONTENT.subarray(n, n + 8 * MiB)),
    CONTENT.subarray(0, 8 * MiB - 1),
  ];
  const parts = (async function* all(): AsyncGenerator<Uint8Array> {
    yield* given;
  })();
  const sealed = new SealKeys(TO, [], gpgThat('')).sealParts(parts, {
    release: (part) => released.push(part),
  });
  const all: Uint8Array[] = [];
  for await (const part of sealed) {
    sizes.push(part.length);
    all.push(part);
  }
  expect(Buffer.concat(all).equals(Buffer.concat([Buffer.from('SEALED'), ...given]))).toBe(true);
  expect(released.map((part) => (given as readonly Uint8Array[]).indexOf(part))).toEqual([0, 1, 2, 3]);
  expect(new Set(sizes.slice(0, -1)).size).toBe(1);
  expect(sizes[0]).toBeGreaterThan(5 * MiB);
  expect(sizes.length).toBeLessThanOrEqual(given.length);
});

it('at most four are at work at once on few bytes, and at most four open objects', async () => {
  const store = storeWith(gpgThat('is slow'));
  const names = Array.from({ length: 10 }, (_, n) => `r${n}.7.gpg`);
  let most = 0;
  const look = setInterval(() => {
    most = Math.max(most, pids().filter(isThere).length);
  }, 20);
  await Promise.all(names.map((name) => store.put(name, CONTENT.subarray(0, 999), { meta: META })));
  expect(inner.objects.size).toBe(10);
  expect(most).toBe(4);
  most = 0;
  const options = { parallel: 1, sizeHintBytes: undefined, signal: NEVER };
  await Promise.all(names.map((name) => readAll(objectStream(store, name, options))));
  clearInterval(look);
  expect(most).toBe(4);
});

it('what gpg says besides is shown nowhere, and of a failure only its last line, without control characters', async () => {
  const failed = storeWith(gpgThat('fails')).put(OBJECT, CONTENT.subarray(0, 9), { meta: META });
  const { message } = (await failed.catch((error: unknown) => error)) as Error;
  expect(message).toBe('gpg cannot encrypt: gpg: no space \\x1b[2J left');
  await storeWith(gpgThat('')).put(OBJECT, Buffer.from('x'), { meta: META });
  const stored = inner.objects.get(OBJECT);
  expect(stored?.bytes.toString()).toBe('SEALEDx');
  expect(JSON.stringify(stored?.meta)).not.toContain('SECRET');
});

describe('a reader of an object gets', () => {
  const stored = (bytes: Buffer): void =>
    void inner.objects.set(OBJECT, { bytes: Buffer.concat([Buffer.from('SEALED'), bytes]), meta: META });
  const reading = (gpg: Gpg): AsyncGenerator<Uint8Array> =>
    objectStream(storeWith(gpg), OBJECT, { parallel: 1, sizeHintBytes: undefined, signal: NEVER });

  it('what was sealed, small or large', async () => {
    for (const bytes of [CONTENT, CONTENT.subarray(0, MiB), Buffer.alloc(0)]) {
      stored(bytes);
      expect((await readAll(reading(gpgThat('')))).equals(bytes)).toBe(true);
    }
  });

  it.each([
    ['dies', 'was ended by SIGKILL'],
    ['hangs', 'no progress'],
    ['lingers', 'no progress'],
    ['locked', 'No secret key'],
  ])('status 69, and not that the object is damaged, if gpg %s', async (how, why) => {
    stored(CONTENT.subarray(0, MiB));
    const chunks: Uint8Array[] = [];
    const read = (async () => {
      for await (const chunk of reading(gpgThat(how))) chunks.push(chunk);
    })();
    await expect(read).rejects.toMatchObject({ status: 69, message: expect.stringContaining(why) as string });
    expect(chunks).toEqual([]);
  });

  it.each(['fails', 'says nothing'])(
    'CorruptError, and not one small byte before, if gpg %s',
    async (how) => {
      stored(CONTENT.subarray(0, MiB));
      const chunks: Uint8Array[] = [];
      const read = (async () => {
        for await (const chunk of reading(gpgThat(how))) chunks.push(chunk);
      })();
      await expect(read).rejects.toBeInstanceOf(CorruptError);
      expect(chunks).toEqual([]);
    },
  );

  it.each([
    ['CorruptError if gpg still opens a record, but not the object', '', CorruptError],
    ['status 69 if gpg opens nothing any more: the agent has lost the passphrase', 'locked', CaptureError],
  ])('%s', async (_, after, kind) => {
    const turns = ['', 'locked', after].map(gpgThat);
    const open = (bytes: AsyncIterable<Uint8Array>) => turns.shift()?.open(bytes);
    const keys = new SealKeys(TO, [], { open } as Gpg);
    const key = Buffer.from(`SEALED${'k'.repeat(32)}`).toString('base64');
    expect(await keys.open({ to: TO, key })).toBeDefined();
    const error: unknown = await readAll(keys.opened('.gpg', only(Buffer.from('SEALEDx')))).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(kind);
    expect(String(error)).toContain('No secret key');
  });

  it('the error of the store unchanged', async () => {
    const broken = async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('SEALED');
      throw new Error('the line is cut');
    };
    const read = readAll(new SealKeys(TO, [], gpgThat('')).opened('.gpg', broken()));
    await expect(read).rejects.toThrow(/^the line is cut$/);
  });

  it('nothing more once it stops reading: gpg is killed', async () => {
    stored(CONTENT);
    for await (const chunk of reading(gpgThat(''))) {
      expect(chunk.length).toBeGreaterThan(0);
      break;
    }
  });
});

describe('a recipient', () => {
  const key = (validity: string, capabilities: string, fingerprint = FINGERPRINT): string =>
    `tru::1:1795955566:0:3:1:5\npub:${validity}:255:22:A637541E26951300:1795955565:::u:::${capabilities}:::::ed25519:::0:\n` +
    `fpr:::::::::${fingerprint}:\nuid:u::::1795955565::71C2::Run <run@lab.example>::::::::::0:\n` +
    `sub:u:255:18:2305B3E8F8EC98D8:1795955566::::::e:::::cv25519::\nfpr:::::::::655075A3B8007C40A206C4D02305B3E8F8EC98D8:\n`;
  const OTHER = FINGERPRINT.replaceAll('9', '8');
  const opened = (listed: string | undefined, seal: SealSettings, how = ''): Promise<SealKeys> => {
    if (listed !== undefined) fs.writeFileSync(path.join(dir, 'keys'), listed);
    return openSealKeys(seal, envOf(how), { signal: NEVER });
  };

  it('is the fingerprint of its key, once for several names', async () => {
    const { recipients } = await opened(key('u', 'scESC'), { to: ['gpg:run@lab.example', 'gpg:26951300'] });
    expect(recipients).toEqual(TO);
  });

  it('is the one usable key of an address that has old ones', async () => {
    const keys = key('e', 'sc', OTHER) + key('u', 'scESC') + key('r', 'sc', OTHER);
    expect((await opened(keys, { to: ['gpg:run@lab.example'] })).recipients).toEqual(TO);
  });

  it.each([
    ['unknown', undefined, 'No such file'],
    ['of no key', '', 'no such key'],
    ['of several keys', key('u', 'scESC') + key('u', 'scESC', OTHER), '2 keys match'],
    ['expired', key('e', 'sc'), 'has expired'],
    ['revoked', key('r', 'sc'), 'is revoked'],
    ['disabled', key('u', 'scESCD'), 'no usable key for encryption'],
    ['only for signatures', key('u', 'scSC'), 'no usable key for encryption'],
  ])('is refused with 64 if it is %s', async (_, listed, why) => {
    await expect(opened(listed, { to: ['gpg:run@lab.example'] })).rejects.toMatchObject({
      status: 64,
      message: expect.stringContaining(why) as string,
      hint: expect.stringContaining('gpg --list-keys') as string,
    });
  });

  it('is refused with 64 where there is no gpg, and where gpg cannot encrypt', async () => {
    const to = ['gpg:run@lab.example'];
    await expect(openSealKeys({ to }, { PATH: '/nowhere' }, { signal: NEVER })).rejects.toMatchObject({
      status: 64,
      message: '--encrypt gpg:run@lab.example: there is no gpg in PATH',
      hint: expect.stringContaining('install GnuPG') as string,
    });
    await expect(opened(key('u', 'scESC'), { to }, 'fails')).rejects.toMatchObject({
      status: 64,
      message: expect.stringContaining('nothing can be sealed here: gpg cannot encrypt') as string,
    });
  });
});
