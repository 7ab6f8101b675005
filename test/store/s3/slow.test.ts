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
import { setEnv } from './setup.ts';

const STALL_MS = 300;
const EVERY_MS = 40;
const HEADERS = `HTTP/1.1 200 OK\r\nETag: "${'a'.repeat(10_000)}"\r\nContent-Length: 10000\r\n\r\n`;
const COPIED = '<CopyObjectResult><ETag>"x"</ETag></CopyObjectResult>';

/** What is sent at once, and what then byte by byte, then at once again. */
interface Pace {
  readonly atOnce: string;
  readonly trickled: string;
  readonly end?: string;
}

let server: http.Server;
let pace: (method: string) => Pace;
let bucket: Bucket;
let restore: () => void;
beforeEach(async () => {
  server = http.createServer((request) => {
    request.resume();
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
async function answer({ atOnce, trickled, end = '' }: Pace, socket: Socket): Promise<void> {
  socket.write(atOnce);
  for (const byte of trickled) {
    await sleep(EVERY_MS);
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

describe('an answer that comes a byte at a time', () => {
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

it('A body that stops in its middle fails a read as an outage does', async () => {
  pace = () => ({ atOnce: `${HEADERS}half`, trickled: '' });
  const read = async (): Promise<string> => textOf((await getObject(bucket, 'r.dat', {}))?.body);
  await expect(read()).rejects.toMatchObject({
    kind: 'transient',
    message: expect.stringContaining('the answer broke off after 4 of 10000 bytes'),
  });
});

it('A copy that the server keeps alive with spaces is waited for', async () => {
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
