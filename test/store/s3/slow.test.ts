// A server that answers a byte at a time: it never stalls, and never has answered. It is an outage like any other.
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openBucket, type Bucket } from '../../../src/store/s3/bucket.ts';
import { copyObject } from '../../../src/store/s3/copy.ts';
import { putObject } from '../../../src/store/s3/put.ts';
import { getObject, headObject, listObjects } from '../../../src/store/s3/objects.ts';
import { newMeta, textOf } from '../contract.ts';
import { flood } from './flood.ts';
import { setEnv } from './setup.ts';

const STALL_MS = 300;
const EVERY_MS = 40;
const HEADERS = `HTTP/1.1 200 OK\r\nETag: "${'a'.repeat(10_000)}"\r\nContent-Length: 10000\r\n\r\n`;
const COPIED = '<CopyObjectResult><ETag>"x"</ETag></CopyObjectResult>';

/** What is sent at once, and what then piece by piece, by default byte by byte, then at once again. */
interface Pace {
  readonly atOnce: string;
  readonly trickled: Iterable<string>;
  readonly end?: string;
  readonly everyMs?: number;
}

function* endless(piece: string): Generator<string> {
  for (;;) yield piece;
}

let server: http.Server;
let pace: (method: string) => Pace;
let bucket: Bucket;
let isRead: boolean;
let restore: () => void;
beforeEach(async () => {
  isRead = true;
  server = http.createServer((request) => {
    if (isRead) request.resume();
    void answer(pace(request.method ?? ''), request.socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  restore = setEnv({
    AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'k',
    AWS_SECRET_ACCESS_KEY: 's',
  });
  const settings = { url: 's3://lab/run7', flags: ['path-style'], unfenced: false };
  bucket = await openBucket(settings, 0, { stallMs: STALL_MS });
});
afterEach(() => {
  bucket.close();
  server.closeAllConnections();
  server.close();
  restore();
});

/** Past Node's own answer: not even its headers are whole. */
async function answer(
  { atOnce, trickled, end = '', everyMs = EVERY_MS }: Pace,
  socket: Socket,
): Promise<void> {
  socket.on('error', () => undefined);
  socket.write(atOnce);
  for (const byte of trickled) {
    await sleep(everyMs);
    if (socket.destroyed) return;
    socket.write(byte);
  }
  socket.write(end);
}

const WORK: readonly (readonly [string, () => Promise<unknown>])[] = [
  ['listing', async () => listObjects(bucket, '', undefined).next()],
  ['look', () => headObject(bucket, 'r.dat')],
  ['put', () => putObject(bucket, 'r.dat', Buffer.from('x'), { meta: newMeta() })],
  ['read', async () => textOf((await getObject(bucket, 'r.dat', {}))?.body)],
];

describe('an answer that arrives a byte at a time', () => {
  it.each(WORK)('from its first header on fails a %s as an outage does', async (_, work) => {
    pace = () => ({ atOnce: '', trickled: HEADERS });
    await expect(work()).rejects.toMatchObject({ name: 'StoreError', kind: 'transient' });
  });

  it.each(WORK.filter(([name]) => name === 'listing' || name === 'read'))(
    'in its body fails a %s as an outage does',
    async (_, work) => {
      pace = () => ({ atOnce: HEADERS, trickled: '<'.repeat(10_000) });
      await expect(work()).rejects.toMatchObject({ name: 'StoreError', kind: 'transient' });
    },
  );
});

/** As an outage, and by the time that it takes: nothing of it is ever wrong. */
const OUTAGE = {
  name: 'StoreError',
  kind: 'transient',
  message: expect.stringContaining('no answer from http'),
};

describe('an answer that arrives at a good pace, but never ends,', () => {
  const INFORMATION = 'HTTP/1.1 102 Processing\r\n\r\n';

  it.each(WORK)('of informational answers only, fails a %s', async (_, work) => {
    pace = () => ({ atOnce: '', trickled: endless(INFORMATION) });
    await expect(work()).rejects.toMatchObject(OUTAGE);
  });

  it.each(WORK)('in its head fails a %s', async (_, work) => {
    pace = () => ({ atOnce: 'HTTP/1.1 200 OK\r\n', trickled: endless('X-Filler: a\r\n') });
    await expect(work()).rejects.toMatchObject(OUTAGE);
  });

  it('while the server does not read the request, fails a put', async () => {
    isRead = false;
    pace = () => ({ atOnce: '', trickled: endless(INFORMATION) });
    // More than the kernel takes for a socket that nobody reads.
    const body = Buffer.alloc(32 * 2 ** 20);
    await expect(putObject(bucket, 'r.dat', body, { meta: newMeta() })).rejects.toMatchObject(OUTAGE);
  });

  const CHUNKED = 'HTTP/1.1 200 OK\r\nETag: "x"\r\nTransfer-Encoding: chunked\r\n\r\n';
  it.each([
    ...WORK.filter(([name]) => name === 'listing' || name === 'put'),
    ['copy', () => copyObject(bucket, { from: 'from', to: 'to' })] as const,
  ])('in its body fails a %s', async (_, work) => {
    let heads = 0;
    // Another object each time: nothing says that a copy which failed is there all the same.
    const looked = (): string => {
      heads += 1;
      return `HTTP/1.1 200 OK\r\nETag: "y"\r\nx-amz-meta-push: ${heads}\r\nContent-Length: 1\r\n\r\n`;
    };
    pace = (method) =>
      method === 'HEAD'
        ? { atOnce: looked(), trickled: '' }
        : { atOnce: CHUNKED, trickled: endless(`64\r\n${' '.repeat(100)}\r\n`) };
    await expect(work()).rejects.toMatchObject(OUTAGE);
  });
});

it('a document with more bytes than S3 ever sends is given up before it is in memory', async () => {
  server.removeAllListeners('request');
  const sent = { sentBytes: 0 };
  server.on('request', (_, response: http.ServerResponse) => {
    const { socket } = response;
    socket?.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
    if (socket !== null) flood(socket, Buffer.from(`10000\r\n${'<a/>'.repeat(2 ** 14)}\r\n`), sent);
  });
  await expect(listObjects(bucket, '', undefined).next()).rejects.toMatchObject({
    kind: 'transient',
    message: expect.stringContaining('the answer is not one of S3'),
  });
  expect(sent.sentBytes).toBeLessThan(64 * 2 ** 20);
});

it('one byte now and then fails a read as an outage does', async () => {
  pace = () => ({ atOnce: HEADERS, trickled: endless('<'), everyMs: STALL_MS * 0.8 });
  const read = async (): Promise<string> => textOf((await getObject(bucket, 'r.dat', {}))?.body);
  await expect(read()).rejects.toMatchObject({ name: 'StoreError', kind: 'transient' });
});

it('a body that stops in the middle fails a read as an outage does', async () => {
  pace = () => ({ atOnce: `${HEADERS}half`, trickled: '' });
  const read = async (): Promise<string> => textOf((await getObject(bucket, 'r.dat', {}))?.body);
  await expect(read()).rejects.toMatchObject({
    kind: 'transient',
    message: expect.stringContaining('the answer broke off after 4 of 10000 bytes'),
  });
});

it('a copy that the server keeps alive with spaces is awaited', async () => {
  const spaces = ' '.repeat(Math.ceil((STALL_MS * 3) / EVERY_MS));
  const length = spaces.length + COPIED.length;
  let heads = 0;
  pace = (method) => {
    if (method !== 'HEAD') {
      const atOnce = `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n`;
      return { atOnce, trickled: spaces, end: COPIED };
    }
    // Another object each time: nothing says that a copy which failed is there all the same.
    heads += 1;
    const facts = `ETag: "x"\r\nx-amz-meta-push: ${heads}\r\nContent-Length: 1`;
    return { atOnce: `HTTP/1.1 200 OK\r\n${facts}\r\n\r\n`, trickled: '' };
  };
  await expect(copyObject(bucket, { from: 'from', to: 'to' })).resolves.toBeUndefined();
  expect(heads).toBe(1);
});
