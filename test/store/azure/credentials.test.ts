import http from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import { ContainerSASPermissions } from '@azure/storage-blob';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { all, of } from '../../doctor/findings.ts';
import { examineStore } from '../../../src/doctor/store.ts';
import { StoreError, type Store } from '../../../src/store/contract/store.ts';
import { startAzureServer, type AzureServer } from '../../azure/server.ts';
import { kindOf, listOf, newMeta } from '../contract.ts';
import { openAzure, setEnv } from './setup.ts';

let server: AzureServer;
beforeAll(async () => {
  server = await startAzureServer();
});
afterAll(() => server.stop());
let restore = (): void => undefined;
afterEach(() => restore());

const CONNECTION = 'AZURE_STORAGE_CONNECTION_STRING';
const connection = (): string => server.env[CONNECTION] ?? '';
const endpoint = (): string => /BlobEndpoint=([^;]+)/.exec(connection())?.[1] ?? '';

async function opened(env: Readonly<Record<string, string>>, url = `${server.url}/run`): Promise<Store> {
  restore();
  restore = setEnv(env);
  return openAzure(url, 300);
}

/** The whole error, as the user sees it. */
async function errorOf(work: Promise<unknown>): Promise<StoreError> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof StoreError)) throw new Error('no StoreError', { cause: error });
  return error;
}

async function withSas(rights: string, hours: number): Promise<Record<string, string>> {
  const expiresOn = new Date(Date.now() + hours * 3_600_000);
  const url = await server.container.generateSasUrl({
    permissions: ContainerSASPermissions.parse(rights),
    startsOn: new Date(Date.now() - 48 * 3_600_000),
    expiresOn,
  });
  return { [CONNECTION]: `BlobEndpoint=${endpoint()};SharedAccessSignature=${new URL(url).search.slice(1)}` };
}

it('are a connection string with a key: they do not expire', async () => {
  const store = await opened(server.env);
  expect(await store.access()).toEqual({ expiresMs: undefined, isSession: false, isRenewable: false });
  expect(await kindOf(store.put('r.dat', Buffer.from('x'), { meta: newMeta() }))).toBe('stored');
});

it('are a SAS, with which copies work, too: its end is known', async () => {
  const store = await opened(await withSas('racwdl', 1));
  expect(await store.access()).toMatchObject({ isSession: true, isRenewable: false });
  expect((await store.access())?.expiresMs).toBeGreaterThan(Date.now());
  const findings = await all(
    examineStore({ store, graceMs: 1000, sizesBytes: [1000], signal: new AbortController().signal }),
  );
  expect(findings.filter(({ level, check }) => level !== 'ok' && check !== 'throughput')).toEqual([]);
  expect(of(findings, 'credentials').says).toMatch(/expire in .*; they are not renewed/);
});

it('are a SAS that has expired: the error says so, and nothing of the SAS', async () => {
  const env = await withSas('racwdl', -1);
  const error = await errorOf((await opened(env)).head('r.dat'));
  expect(error).toMatchObject({ kind: 'expired', hint: expect.stringContaining('AZURE_STORAGE_SAS_TOKEN') });
  expect(inspect(error, { depth: 9 })).not.toMatch(/sig=|sv=/);
});

it('are a SAS without the right to write', async () => {
  const store = await opened(await withSas('rl', 1));
  expect(await listOf(store, '')).toEqual(expect.any(Array));
  const error = await errorOf(store.put('r.dat', Buffer.from('x'), { meta: newMeta() }));
  expect(error).toMatchObject({
    kind: 'denied',
    message: expect.stringContaining('PutBlob az://devstoreaccount1/lab/run/r.dat: access denied (http 403'),
    hint: expect.stringContaining('racwdl'),
  });
});

it.each<[string, () => Readonly<Record<string, string>>, string, string, RegExp]>([
  [
    'a wrong key',
    () => ({ [CONNECTION]: connection().replace('Eby8', 'Abc8') }),
    '',
    'denied',
    /access denied/,
  ],
  ['no such container', () => server.env, 'az://devstoreaccount1/none/run', 'missing', /no such container/],
  [
    'nothing that listens',
    () => ({ [CONNECTION]: connection().replace(/127\.0\.0\.1:\d+/, '127.0.0.1:1') }),
    '',
    'transient',
    /cannot reach http:\/\/127\.0\.0\.1:1 \(ECONNREFUSED, \d+ tries\)/,
  ],
  [
    'no account of this name',
    () => ({ AZURE_STORAGE_KEY: 'a2V5' }),
    'az://nosuchaccount0/lab/run',
    'transient',
    /cannot reach https:\/\/nosuchaccount0\.blob\.core\.windows\.net/,
  ],
  [
    'a SAS in its variable',
    () => ({ AZURE_STORAGE_SAS_TOKEN: '?sv=2022-11-02&sig=secret' }),
    'az://nosuchaccount0/lab/run',
    'transient',
    /cannot reach https:\/\/nosuchaccount0\.blob\.core\.windows\.net \(/,
  ],
])('%s: every use fails with its reason', async (_, envOf, url, kind, why) => {
  const store = await opened(envOf(), url === '' ? undefined : url);
  for (const work of [
    () => store.put('r.dat', Buffer.from('x'), { meta: newMeta() }),
    () => store.get('r.dat'),
    () => store.head('r.dat'),
    () => listOf(store, ''),
  ]) {
    const error = await errorOf(work());
    expect(error).toMatchObject({ kind, message: expect.stringMatching(why), hint: expect.any(String) });
    expect(inspect(error, { depth: 9 })).not.toMatch(/secret|AccountKey|sig=/);
  }
});

it.each([
  ['garbage', 'AccountKey=secret', /not a connection string/],
  [
    'another account',
    () => connection().replace('AccountName=devstoreaccount1', 'AccountName=other'),
    /account other/,
  ],
])('%s in the connection string is refused at the opening', async (_, given, why) => {
  const text = typeof given === 'string' ? given : given();
  const error = await errorOf(opened({ [CONNECTION]: text }));
  expect(error).toMatchObject({ kind: 'refused', message: expect.stringMatching(why) });
  expect(inspect(error, { depth: 9 })).not.toMatch(/secret|Eby8/);
});

it('are of a managed identity, if nothing else is given: they are renewed, also after an outage', async () => {
  let isDown = false;
  const tokens = http.createServer((request, response) => {
    // The library asks for a new one five minutes before.
    const expires = Math.floor(Date.now() / 1000) + 120;
    response.setHeader('content-type', 'application/json');
    if (isDown) response.statusCode = 400;
    response.end(
      request.headers['x-identity-header'] === 'the header' && !isDown
        ? JSON.stringify({ access_token: 'token', expires_on: expires, resource: 'x', token_type: 'Bearer' })
        : '{}',
    );
  });
  tokens.listen(0, '127.0.0.1');
  await once(tokens, 'listening');
  onTestFinished(() => void tokens.close());
  const store = await opened({
    AZURE_TOKEN_CREDENTIALS: 'ManagedIdentityCredential',
    IDENTITY_ENDPOINT: `http://127.0.0.1:${(tokens.address() as AddressInfo).port}/token`,
    IDENTITY_HEADER: 'the header',
  });
  expect(await store.access()).toMatchObject({ isSession: true, isRenewable: true });
  expect((await store.access())?.expiresMs).toBeGreaterThan(Date.now());
  isDown = true;
  expect(await errorOf(store.access())).toMatchObject({
    kind: 'transient',
    message: expect.stringContaining('no new token'),
    hint: expect.stringContaining('az login'),
  });
  isDown = false;
  expect(await store.access()).toMatchObject({ isRenewable: true });
});

it('are missing: the error names what can be set', async () => {
  const store = await opened({ AZURE_TOKEN_CREDENTIALS: 'EnvironmentCredential' });
  const error = await errorOf(store.access());
  expect(error).toMatchObject({
    kind: 'denied',
    message: expect.stringContaining('no credentials found'),
    hint: expect.stringContaining('az login'),
  });
});

describe('a proxy', () => {
  const KEY = 'c2VjcmV0';
  async function proxied(env: Readonly<Record<string, string>>, answer: string | undefined) {
    const asked: string[] = [];
    const proxy = http.createServer();
    proxy.on('connect', ({ url = '' }, socket) => {
      asked.push(url);
      if (answer === undefined) socket.destroy();
      else socket.end(`HTTP/1.1 ${answer}\r\ncontent-length: 0\r\n\r\n`);
    });
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    onTestFinished(() => void proxy.close());
    const { port } = proxy.address() as AddressInfo;
    const HTTPS_PROXY = `http://ada:secret@127.0.0.1:${port}`;
    const store = await opened(
      { AZURE_STORAGE_KEY: KEY, HTTPS_PROXY, ...env },
      'az://nosuchaccount0/lab/run',
    );
    return { asked, error: await errorOf(store.head('r.dat')) };
  }

  it.each([
    ['407 Proxy Authentication Required', /proxy 127.0.0.1:\d+: http 407/],
    ['403 Forbidden', /proxy 127.0.0.1:\d+: http 403/],
    [undefined, /proxy 127.0.0.1:\d+: /],
  ])('that answers %s is named, and asked again', async (answer, why) => {
    const { asked, error } = await proxied({}, answer);
    expect(error).toMatchObject({
      kind: 'transient',
      message: expect.stringMatching(why),
      hint: expect.stringContaining('HTTPS_PROXY'),
    });
    expect(asked.length).toBeGreaterThan(1);
    expect(new Set(asked)).toEqual(new Set(['nosuchaccount0.blob.core.windows.net:443']));
    expect(inspect(error, { depth: 9 })).not.toMatch(/secret|c2VjcmV0/);
  });

  it.each(['core.windows.net', '*', '.windows.net:443'])(
    'is not asked with NO_PROXY=%s',
    async (NO_PROXY) => {
      const { asked, error } = await proxied({ NO_PROXY }, '403 Forbidden');
      expect(error).toMatchObject({
        message: expect.stringContaining('cannot reach https://nosuchaccount0'),
      });
      expect(asked).toEqual([]);
    },
  );
});
