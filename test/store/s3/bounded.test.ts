// What gives credentials may be anything that listens where the environment says: it must take neither memory nor time without
// bound. Its answers come from real servers.
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Bounds } from '../../../src/store/s3/bounded.ts';
import { credentialChain, type KeySource } from '../../../src/store/s3/credentials.ts';
import { locationOf } from '../../../src/store/s3/environment.ts';
import { openTransport, type Transport } from '../../../src/store/http/transport.ts';
import { flood, type Flood } from './flood.ts';
import { openS3, setEnv } from './setup.ts';

const KEYS = JSON.stringify({
  Code: 'Success',
  AccessKeyId: 'AKIAFIRST',
  SecretAccessKey: 'first-secret',
  Token: 'first-token',
  Expiration: '2099-01-01T00:00:00Z',
});
const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n';
const MIB = 2 ** 20;

let server: http.Server;
let url: string;
/** What comes of a request, past Node's own answer. */
let answer: (socket: Socket, path: string) => void;
let sent: Flood;
let transport: Transport;
let restore: () => void;
beforeEach(async () => {
  sent = { sentBytes: 0 };
  server = http.createServer((request) => answer(request.socket, request.url ?? ''));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  transport = openTransport();
  restore = () => undefined;
});
afterEach(() => {
  restore();
  transport.close();
  server.closeAllConnections();
  server.close();
});

/** Never so slow that nothing comes for a second. */
function drip(socket: Socket): void {
  const timer = setInterval(() => socket.write(' '), 50);
  socket.on('error', () => undefined);
  socket.once('close', () => clearInterval(timer));
}

const BODY = (socket: Socket): void => {
  socket.write(`${HEAD}Transfer-Encoding: chunked\r\n\r\n`);
  flood(socket, Buffer.from(`10000\r\n${'a'.repeat(65_536)}\r\n`), sent);
};
const ENDLESS: readonly (readonly [string, (socket: Socket) => void])[] = [
  ['a body', BODY],
  [
    'answers that only inform',
    (socket) => flood(socket, Buffer.from('HTTP/1.1 102 Processing\r\n\r\n'.repeat(1000)), sent),
  ],
];
const SLOW: readonly (readonly [string, (socket: Socket) => void])[] = [
  [
    'a body',
    (socket) => {
      socket.write(`${HEAD}Content-Length: 100000\r\n\r\n`);
      drip(socket);
    },
  ],
  [
    'a head',
    (socket) => {
      socket.write(`${HEAD}X-Filler: `);
      drip(socket);
    },
  ],
];

function asContainer(): void {
  restore = setEnv({ AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/keys` });
}
function asEc2(): void {
  restore = setEnv({ AWS_EC2_METADATA_SERVICE_ENDPOINT: url, AWS_EC2_METADATA_DISABLED: 'false' });
}
const WHERE: readonly (readonly [string, () => void])[] = [
  ['the endpoint of a container', asContainer],
  ['the metadata service of EC2', asEc2],
];

const chain = (bounds?: Bounds): KeySource => credentialChain(transport, 'us-east-1', bounds);

function good(socket: Socket, path: string): void {
  const body = path.endsWith('/token') || path.endsWith('credentials/') ? 'role' : KEYS;
  socket.write(`${HEAD}Content-Length: ${body.length}\r\n\r\n${body}`);
}

/** The hour of 25 is none. */
function odd(socket: Socket, path: string): void {
  const body = path.endsWith('/token') || path.endsWith('credentials/') ? 'role' : KEYS.replace('T00', 'T25');
  socket.write(`${HEAD}Content-Length: ${body.length}\r\n\r\n${body}`);
}

function isOfSdk(one: PromiseSettledResult<unknown>): boolean {
  return one.status === 'rejected' && (one.reason as Error).name === 'CredentialsProviderError';
}

describe.each(WHERE)('%s', (_, set) => {
  beforeEach(set);

  it('gives credentials', async () => {
    answer = good;
    expect(await chain()()).toMatchObject({ accessKeyId: 'AKIAFIRST', sessionToken: 'first-token' });
  });

  it('that says no time at which they expire is named, and can be asked again', async () => {
    answer = odd;
    const keys = chain();
    await expect(keys()).rejects.toMatchObject({
      name: 'GivenUp',
      message: expect.stringMatching(`^${url}: (its answer is not understood|their Expiration)`) as string,
    });
    answer = good;
    expect(await keys()).toMatchObject({ accessKeyId: 'AKIAFIRST' });
  });

  it.each(ENDLESS)(
    'that sends %s without end is given up by all waiting requests, and can be asked again',
    async (__, act) => {
      answer = act;
      const keys = chain();
      const ask = (): Promise<readonly PromiseSettledResult<unknown>[]> =>
        Promise.allSettled([keys(), keys(), keys()]);
      let all = await ask();
      // On a busy machine the SDK's own second, in which nothing comes, can end it first.
      for (let left = 5; left > 0 && all.some(isOfSdk); left -= 1) all = await ask();
      for (const one of all)
        expect(one).toMatchObject({
          status: 'rejected',
          reason: { message: `${url}: its answer has more than ${MIB} bytes` },
        });
      expect(sent.sentBytes).toBeLessThan(64 * MIB);
      answer = good;
      expect(await keys()).toMatchObject({ accessKeyId: 'AKIAFIRST' });
    },
  );

  it.each(SLOW)('that sends %s a byte at a time is given up', async (__, act) => {
    answer = act;
    await expect(chain({ bytes: MIB, ms: 500 })()).rejects.toThrow(`${url}: no whole answer in 0.5 s`);
  });
});

it('a command reports where such an answer came from, and what to check', async () => {
  restore = setEnv({
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/keys`,
    AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:1',
    AWS_REGION: 'us-east-1',
  });
  answer = BODY;
  const store = await openS3('s3://lab/run7', 0);
  const why = {
    kind: 'transient',
    message: `HeadObject s3://lab/run7/r.dat: no credentials from ${url}: its answer has more than ${MIB} bytes (1 try)`,
    hint: expect.stringContaining('AWS_CONTAINER_CREDENTIALS_FULL_URI'),
  };
  await expect(store.head('r.dat')).rejects.toMatchObject(why);
  await store.close();
});

it('an endless region is ignored', async () => {
  restore = setEnv({ AWS_EC2_METADATA_SERVICE_ENDPOINT: url });
  delete process.env['AWS_EC2_METADATA_DISABLED'];
  answer = BODY;
  expect((await locationOf('lab', false)).region).toBe('us-east-1');
  expect(sent.sentBytes).toBeLessThan(64 * MIB);
});

it('other answers that the process gets have no such limit', async () => {
  answer = (socket, path) => {
    if (path === '/keys') BODY(socket);
    else socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${2 * MIB}\r\n\r\n${'a'.repeat(2 * MIB)}`);
  };
  asContainer();
  await expect(chain()()).rejects.toThrow('its answer has more than');
  const [response] = (await once(http.get(`${url}/long`), 'response')) as [http.IncomingMessage];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) bytes += chunk.length;
  expect(bytes).toBe(2 * MIB);
});
