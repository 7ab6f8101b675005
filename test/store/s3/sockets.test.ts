// The sockets to the server: few, used again and again, given up when they are dead, and none left behind.
import { getEventListeners, once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Shares } from '../../../src/model/shares.ts';
import type { Connections } from '../../../src/store/contract/driver.ts';
import { openStore } from '../../../src/store/open.ts';
import { openBucket, type Bucket } from '../../../src/store/s3/bucket.ts';
import { headObject } from '../../../src/store/s3/objects.ts';
import { putObject } from '../../../src/store/s3/put.ts';
import type { OnTry, Store, StoreError } from '../../../src/store/contract/store.ts';
import type { Operation } from '../../s3-server/operations.ts';
import type { S3Server } from '../../s3-server/server.ts';
import { chunks, kindOf, listOf, newMeta, textOf } from '../contract.ts';
import { eachOnItsServer, openS3, setEnv } from './setup.ts';

const MIB = 2 ** 20;
const EMPTY = { 'content-length': '0' };

let server: S3Server;
let store: Store;

describe('sockets', () => {
  eachOnItsServer(0, (started, opened) => {
    server = started;
    store = opened;
  });
  const put = (key: string): Promise<string> =>
    kindOf(store.put(key, Buffer.from('bytes'), { meta: newMeta() }));

  it('one serves request after request, whatever the answers are', async () => {
    for (let round = 0; round < 5; round += 1) {
      await put('r.dat');
      await store.head('none');
      await store.get('none');
      expect(await textOf((await store.get('r.dat'))?.body)).toBe('bytes');
      await listOf(store, '');
      await store.copy('r.dat', 'copy');
      await store.delete(['copy']);
      server.fault = () => ({ kind: 'answer', status: 403, code: 'AccessDenied' });
      await expect(put('r.dat')).rejects.toMatchObject({ kind: 'denied' });
      server.fault = () => undefined;
    }
    expect(server.connections()).toBe(1);
  });

  it('forty serve any number of requests at once', async () => {
    await Promise.all(Array.from({ length: 100 }, (_, at) => put(`r.${at}`)));
    expect(server.keys()).toHaveLength(100);
    expect(server.connections()).toBe(40);
  });

  it('are shared by tasks; each task hears of its own tries, and closes its own end', async () => {
    const connections: Connections = new Shares(async (opened) => (await opened).close());
    const tries = [0, 0];
    const settings = { url: 's3://lab/run7', flags: ['path-style'], unfenced: false };
    const open = (at: number): Promise<Store> =>
      openStore(settings, { budgetMs: 0, connections, onTry: () => (tries[at] = (tries[at] ?? 0) + 1) });
    const [a, b] = [await open(0), await open(1)];
    const puts = (one: Store, count: number): Promise<unknown>[] =>
      Array.from({ length: count }, (_, at) =>
        one.put(`${count}.${at}`, Buffer.from('x'), { meta: newMeta() }),
      );
    await Promise.all([...puts(a, 60), ...puts(b, 50)]);
    expect(server.connections()).toBe(40);
    expect(tries).toEqual([60, 50]);
    await a.close();
    await b.put('r.dat', Buffer.from('x'), { meta: newMeta() });
    expect(server.keys()).toHaveLength(111);
    await b.close();
    await expect(b.head('r.dat')).rejects.toThrow('the store is closed');
  });

  it('have no listeners of finished requests on the signal', async () => {
    const { signal } = new AbortController();
    for (let at = 0; at < 20; at += 1)
      await store.put(`r.${at}`, Buffer.from('x'), { meta: newMeta(), signal });
    await store.get('r.0', { signal }).then((got) => textOf(got?.body));
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('are awaited only until the signal aborts', async () => {
    server.fault = () => ({ kind: 'stall' });
    const hanging = Array.from({ length: 40 }, (_, at) => put(`r.${at}`));
    await expect.poll(() => server.served.length).toBe(40);
    const abort = new AbortController();
    const oneMore = store.put('r.40', Buffer.from('x'), { meta: newMeta(), signal: abort.signal });
    await nextTurn();
    abort.abort(new Error('the deadline'));
    await expect(oneMore).rejects.toThrow('the deadline');
    expect(server.served).toHaveLength(40);
    await store.close();
    await Promise.allSettled(hanging);
  });

  it('get no request after the store is closed', async () => {
    server.fault = () => ({ kind: 'stall' });
    const hanging = Array.from({ length: 50 }, (_, at) => put(`r.${at}`));
    await expect.poll(() => server.served.length).toBe(40);
    await store.close();
    const ends = await Promise.allSettled(hanging);
    expect(ends.filter(({ status }) => status === 'rejected')).toHaveLength(50);
    await expect(store.head('r.0')).rejects.toThrow('the store is closed');
    expect(server.served).toHaveLength(40);
  });
});

describe('a socket that the server closed while it was idle', () => {
  const told: (StoreError | undefined)[] = [];
  eachOnItsServer(0, (started) => {
    server = started;
  });
  beforeEach(async () => {
    const onTry: OnTry = (_, error) => told.push(error);
    told.length = 0;
    store = await openS3('s3://lab/run7', 0, onTry);
    await store.put('r.dat', Buffer.from('bytes'), { meta: newMeta() });
    return () => store.close();
  });
  const put = (): Promise<string> => kindOf(store.put('new', Buffer.from('bytes'), { meta: newMeta() }));

  it.each<[Operation, () => Promise<unknown>]>([
    ['PutObject', put],
    ['HeadObject', () => store.head('r.dat')],
    ['GetObject', async () => textOf((await store.get('r.dat'))?.body)],
    ['ListObjectsV2', () => listOf(store, '')],
    ['DeleteObject', () => store.delete(['r.dat'])],
    ['CopyObject', () => store.copy('r.dat', 'copy')],
    [
      'CompleteMultipartUpload',
      () => store.put('big', chunks([Buffer.alloc(5 * MIB), Buffer.alloc(1)]), { meta: newMeta() }),
    ],
  ])('costs a %s one more try, and is no failure', async (operation, work) => {
    let failed = 0;
    server.fault = (incoming) => {
      if (incoming.operation !== operation || failed > 0) return undefined;
      failed += 1;
      return { kind: 'reset', afterBytes: 0 };
    };
    await expect(put()).resolves.toBe('stored');
    await work();
    expect(failed).toBe(1);
    expect(told.filter((error) => error !== undefined)).toEqual([]);
  });

  it('is one of several: the next try uses none that was idle as long', async () => {
    await Promise.all(
      Array.from({ length: 8 }, (_, at) => store.put(`r.${at}`, Buffer.from('x'), { meta: newMeta() })),
    );
    const fresh = server.connections();
    // What comes over a connection of that time is not answered.
    server.fault = () => (server.connections() === fresh ? { kind: 'reset', afterBytes: 0 } : undefined);
    expect(await put()).toBe('stored');
    expect(server.connections()).toBe(fresh + 1);
  });

  it('is different from a connection that breaks at once: that is an outage', async () => {
    const other = await openS3('s3://lab/run7', 0);
    server.fault = () => ({ kind: 'reset', afterBytes: 0 });
    await expect(other.head('r.dat')).rejects.toMatchObject({ kind: 'transient' });
    expect(server.served.filter(({ operation }) => operation === 'HeadObject')).toHaveLength(1);
    await other.close();
  });
});

describe('a server that stops answering', () => {
  let mute: http.Server;
  let bucket: Bucket;
  let restore: () => void;
  let serve: http.RequestListener;
  beforeEach(async () => {
    mute = http.createServer((request, response) => serve(request, response));
    mute.listen(0, '127.0.0.1');
    await once(mute, 'listening');
    restore = setEnv({
      AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${(mute.address() as AddressInfo).port}`,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'k',
      AWS_SECRET_ACCESS_KEY: 's',
    });
    const settings = { url: 's3://lab/run7', flags: ['path-style'], unfenced: false };
    bucket = await openBucket(settings, 0, { stallMs: 300, idleMs: 100 });
  });
  afterEach(() => {
    bucket.close();
    mute.closeAllConnections();
    mute.close();
    restore();
  });

  it('does not keep sockets: one that is idle for long is closed', async () => {
    serve = (_, response) => response.writeHead(404, EMPTY).end();
    const connections = (): Promise<number> =>
      new Promise((resolve) => mute.getConnections((_, count) => resolve(count)));
    await headObject(bucket, 'r.dat');
    expect(await connections()).toBe(1);
    await expect.poll(connections).toBe(0);
    // While it is in use, that limit does not hold.
    serve = (_, response) => void setTimeout(() => response.writeHead(404, EMPTY).end(), 200);
    expect(await headObject(bucket, 'r.dat')).toBeUndefined();
  });

  it('that stops reading a body is an outage', async () => {
    serve = (request) => void (request.method === 'PUT' ? request.pause() : request.socket.destroy());
    // More than the kernel takes for a socket that nobody reads.
    await expect(
      putObject(bucket, 'r.dat', Buffer.alloc(32 * MIB), { meta: newMeta() }),
    ).rejects.toMatchObject({
      kind: 'transient',
      message: expect.stringContaining('no answer from http://127.0.0.1'),
    });
  });

  it('that changes to another protocol is an outage', async () => {
    const switched = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n';
    serve = (request) => void request.socket.write(switched);
    await expect(headObject(bucket, 'r.dat')).rejects.toMatchObject({
      kind: 'transient',
      message: expect.stringContaining('no answer from http://127.0.0.1'),
    });
  });

  it('that refuses half a body is heard', async () => {
    serve = (request, response) => {
      request.once('data', () => {
        request.pause();
        response.writeHead(403, { 'content-length': '0' }).end();
      });
    };
    await expect(
      putObject(bucket, 'r.dat', Buffer.alloc(32 * MIB), { meta: newMeta() }),
    ).rejects.toMatchObject({
      kind: 'denied',
    });
  });

  it('that stops in the head of an answer is an outage', async () => {
    serve = (request) => void request.socket.write('HTTP/1.1 200 OK\r\nETag:');
    await expect(headObject(bucket, 'r.dat')).rejects.toMatchObject({ kind: 'transient' });
  });
});
