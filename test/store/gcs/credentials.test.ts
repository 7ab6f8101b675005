// Application Default Credentials: where the driver for Cloud Storage gets its tokens, and what it says if there are none.
import { execFileSync } from 'node:child_process';
import events from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest';
import type { Store } from '../../../src/store/contract/store.ts';
import { newHeaderSource } from '../../../src/store/gcs/credentials.ts';
import { openTransport } from '../../../src/store/http/transport.ts';
import { type GcsServer, startGcsServer } from '../../gcs-server/server.ts';
import { federationOf, serviceAccountOf, SUBJECT_TOKEN, tokenFor } from '../../gcs-server/tokens.ts';
import { newMeta, textOf } from '../contract.ts';
import { openGcs, setEnv } from './setup.ts';

let server: GcsServer;
let dir: string;
beforeEach(async () => {
  server = await startGcsServer();
  server.tokens = new Set();
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'gcs-credentials-'));
});
afterEach(async () => {
  await server.stop();
  fs.rmSync(dir, { recursive: true });
});

function file(name: string, content: string): string {
  const whole = path.join(dir, name);
  fs.writeFileSync(whole, content);
  return whole;
}

/** A store on the server, which wants tokens. */
async function openWith(env: Readonly<Record<string, string>>): Promise<Store> {
  onTestFinished(setEnv({ CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE: server.url, ...env }));
  const store = await openGcs('gs://lab/run7', 0);
  onTestFinished(() => store.close());
  return store;
}

/** Writes an object, and reads it back. */
async function roundTrip(store: Store): Promise<string> {
  await store.put('r', Buffer.from('x'), { meta: newMeta() });
  return textOf((await store.get('r'))?.body);
}

/** Workload identity federation, with a token of the cluster. */
const federation = (url = server.url, subject = SUBJECT_TOKEN): Record<string, string> => ({
  GOOGLE_APPLICATION_CREDENTIALS: file('wif.json', federationOf(url, file('subject', subject))),
});

it('workload identity federation, whose token serves many requests', async () => {
  const store = await openWith(federation());
  expect(await roundTrip(store)).toBe('x');
  expect(server.tokens?.size).toBe(1);
  expect(await store.access()).toEqual({ expiresMs: undefined, isSession: false, isRenewable: true });
});

it('a token that is not valid any more is renewed at once', async () => {
  const store = await openWith(federation());
  expect(await roundTrip(store)).toBe('x');
  server.tokens?.clear();
  expect(await roundTrip(store)).toBe('x');
});

it('the file of a service account, whose key signs what is asked of Google', async () => {
  const name = 'oauth2.googleapis.com';
  const [key, cert] = [path.join(dir, 'key.pem'), path.join(dir, 'cert.pem')];
  const subject = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`];
  const args = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-days',
    '2',
  ];
  execFileSync('openssl', [...args, ...subject, '-keyout', key, '-out', cert], { stdio: 'pipe' });
  const google = https.createServer(
    { key: fs.readFileSync(key), cert: fs.readFileSync(cert) },
    (request, response) => {
      const target = { url: `https://${name}`, tokens: undefined };
      void tokenFor(
        request.url ?? '',
        request.headers,
        target,
      )?.(request).then(({ status, headers, body }) => response.writeHead(status, headers).end(body));
    },
  );
  const asked: string[] = [];
  const proxy = http.createServer().on('connect', (request, socket) => {
    asked.push(request.url ?? '');
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    google.emit('connection', socket);
  });
  proxy.listen(0, '127.0.0.1');
  await events.once(proxy, 'listening');
  onTestFinished(() => void proxy.close());
  const { port } = proxy.address() as AddressInfo;
  const account = file('account.json', serviceAccountOf(`https://${name}`));
  onTestFinished(
    setEnv({ HTTPS_PROXY: `http://127.0.0.1:${port}`, GOOGLE_APPLICATION_CREDENTIALS: account }),
  );
  const transport = openTransport({ ca: fs.readFileSync(cert) });
  onTestFinished(() => transport.close());
  expect((await newHeaderSource(transport)())['authorization']).toMatch(/^Bearer ya29\./);
  expect(asked).toEqual([`${name}:443`]);
});

it('the metadata server of a machine', async () => {
  const store = await openWith({
    GCE_METADATA_HOST: new URL(server.url).host,
    METADATA_SERVER_DETECTION: 'assume-present',
  });
  expect(await roundTrip(store)).toBe('x');
});

it.each<[string, () => Record<string, string>, object]>([
  [
    'there are none',
    () => ({}),
    { kind: 'denied', message: /no credentials found/, hint: /gcloud auth application-default login/ },
  ],
  [
    'their file is missing',
    () => ({ GOOGLE_APPLICATION_CREDENTIALS: path.join(dir, 'none') }),
    { kind: 'denied', message: /does not exist/ },
  ],
  [
    'their file is a FIFO',
    () => {
      execFileSync('mkfifo', [path.join(dir, 'fifo')]);
      return { GOOGLE_APPLICATION_CREDENTIALS: path.join(dir, 'fifo') };
    },
    { kind: 'denied', message: /not a file/ },
  ],
  [
    'their file is a directory',
    () => ({ GOOGLE_APPLICATION_CREDENTIALS: dir }),
    { kind: 'denied', message: /not a file/ },
  ],
  [
    'their subject is refused',
    () => federation(server.url, 'other'),
    { kind: 'expired', message: /not valid any more/ },
  ],
  [
    'who gives tokens is not there',
    () => federation('http://127.0.0.1:9'),
    { kind: 'transient', message: /no token: .*ECONNREFUSED/ },
  ],
])('says so if %s', async (_, env, error) => {
  const store = await openWith(env());
  await expect(store.head('r')).rejects.toMatchObject(matching(error));
  await expect(store.access()).rejects.toMatchObject(matching(error));
});

function matching(error: object): object {
  return Object.fromEntries(
    Object.entries(error).map(([name, value]) => [
      name,
      value instanceof RegExp ? (expect.stringMatching(value) as unknown) : value,
    ]),
  );
}

it('that hang are given up after a time', async () => {
  const silent = await startGcsServer();
  onTestFinished(() => silent.stop());
  silent.fault = () => ({ kind: 'stall' });
  // No path of tokens, so it is taken for a request of the store, which never answers.
  onTestFinished(setEnv(federation(`${silent.url}/upload/storage/v1/b/lab/o?as=`)));
  const transport = openTransport();
  onTestFinished(() => transport.close());
  await expect(newHeaderSource(transport, 200)()).rejects.toThrow('no answer in 0.2 s');
});

it('and an abort ends the waiting for them', async () => {
  const store = await openWith(federation(`${server.url}/upload/storage/v1/b/lab/o?as=`));
  server.fault = () => ({ kind: 'stall' });
  const stop = new AbortController();
  const head = store.head('r', stop.signal);
  stop.abort(new Error('the deadline'));
  await expect(head).rejects.toThrow('the deadline');
});

it('never stand in a message', async () => {
  const store = await openWith(federation());
  server.fault = () => ({ kind: 'answer', status: 403, reason: 'AccessDenied' });
  const error: unknown = await store.head('r').catch((thrown: unknown) => thrown);
  const [token = ''] = server.tokens ?? [];
  expect(JSON.stringify([String(error), error])).not.toContain(token);
  expect(String(error)).toMatch(/access denied/);
});

it('are sent to no other machine without TLS', async () => {
  const address = 'http://storage.example.org';
  onTestFinished(setEnv({ CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE: address }));
  await expect(openGcs('gs://lab/run7')).rejects.toMatchObject({
    kind: 'refused',
    message: expect.stringContaining(`${address}: others on the way could read the tokens`),
  });
});

it.each([
  ['STORAGE_EMULATOR_HOST', 'ftp://x'],
  ['CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE', 'http://'],
])('an address in %s that is none is refused', async (name, address) => {
  onTestFinished(setEnv({ [name]: address }));
  await expect(openGcs('gs://lab/run7')).rejects.toMatchObject({
    kind: 'refused',
    message: `${name} is no address of a server: ${address}`,
  });
});
