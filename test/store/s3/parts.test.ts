// Parts that are under way: when their memory is given back, and what becomes of one when another one fails.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { newDeferred } from '../../../src/model/waiting.ts';
import { type Bucket, openBucket } from '../../../src/store/s3/bucket.ts';
import { putObject } from '../../../src/store/s3/put.ts';
import { newMeta } from '../contract.ts';
import { setEnv } from './setup.ts';

/** More than the kernel takes for a socket that nobody reads. */
const PART_BYTES = 16 * 2 ** 20;

let server: http.Server;
let bucket: Bucket;
let restore: () => void;
let serve: (part: string, request: http.IncomingMessage, response: http.ServerResponse) => Promise<void>;

beforeEach(async () => {
  server = http.createServer((request, response) => {
    const part = new URL(request.url ?? '', 'http://s3').searchParams.get('partNumber');
    if (part !== null) return void serve(part, request, response);
    request.resume();
    response.end('<Answer><UploadId>u</UploadId><ETag>"e"</ETag></Answer>');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  restore = setEnv({
    AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'k',
    AWS_SECRET_ACCESS_KEY: 's',
  });
  bucket = await openBucket({ url: 's3://lab/run7', flags: ['path-style'], unfenced: false }, 0);
});
afterEach(() => {
  bucket.close();
  server.closeAllConnections();
  server.close();
  restore();
});

async function* body(parts: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* parts;
}

it('a part is released when it was sent, not when it is answered', async () => {
  const parts = [PART_BYTES, PART_BYTES + 1].map((size, at) => Buffer.alloc(size, `part ${at}`));
  const md5s = parts.map((part) => createHash('md5').update(part).digest('hex'));
  const answered = parts.map(() => newDeferred<void>());
  const received = new Map<string, string>();
  serve = async (part, request) => {
    request.socket.write('HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 0\r\n\r\n');
    await answered[Number(part) - 1]?.promise;
    await nextTurn();
    const hash = createHash('md5');
    for await (const chunk of request) hash.update(chunk as Buffer);
    received.set(part, hash.digest('hex'));
  };
  const outcome = await putObject(bucket, 'r.dat', body(parts), {
    meta: newMeta(),
    onSent: (bytes) => answered[bytes - PART_BYTES]?.resolve(),
    release: (chunk) => chunk.fill(0),
  });
  expect(outcome.kind).toBe('stored');
  await expect.poll(() => [received.get('1'), received.get('2')], { timeout: 10_000 }).toEqual(md5s);
  await expect.poll(() => parts.every((part) => part[0] === 0), { timeout: 10_000 }).toBe(true);
});

it('a part that is refused before it was sent is sent no further, because its memory is reused', async () => {
  const isOver = newDeferred<void>();
  const parts = [5, 16].map((MiB) => Buffer.alloc(MiB * 2 ** 20, 'part'));
  let tries = 0;
  let changed = 0;
  serve = async (part, request, response) => {
    if (part === '1' || (tries += 1) > 1) {
      request.resume();
      await once(request, 'end');
      return void response.writeHead(200, { etag: '"e"' }).end();
    }
    request.socket.write('HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n');
    request.socket.once('close', () => isOver.resolve());
    // The rest is read only when the part is stored by its second try.
    await stored.promise;
    request
      .on('error', () => undefined)
      .on('data', (chunk: Buffer) => {
        if (chunk.includes(0)) changed += 1;
      });
  };
  const stored = newDeferred<void>();
  const patient = await openBucket({ url: 's3://lab/run7', flags: ['path-style'], unfenced: false }, 20_000);
  const outcome = await putObject(patient, 'r.dat', body(parts), {
    meta: newMeta(),
    release: (chunk) => chunk.fill(0),
  });
  stored.resolve();
  expect(outcome.kind).toBe('stored');
  await isOver.promise;
  expect(changed).toBe(0);
  patient.close();
}, 20_000);

it('a part is abandoned when another one is refused', async () => {
  const isOver = newDeferred<void>();
  serve = async (part, request, response) => {
    request.resume();
    if (part === '1') request.socket.once('close', () => isOver.resolve());
    else response.writeHead(403).end();
  };
  const parts = [5, 5].map((MiB) => Buffer.alloc(MiB * 2 ** 20));
  await expect(putObject(bucket, 'r.dat', body(parts), { meta: newMeta() })).rejects.toMatchObject({
    kind: 'denied',
  });
  // Long before it counts as stalled.
  await isOver.promise;
}, 20_000);
