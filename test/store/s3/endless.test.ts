// What answers in the place of a store may send without end: neither memory nor time goes with it.
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../../../src/store/contract/store.ts';
import type { S3Server } from '../../s3-server/server.ts';
import { chunks, listOf, newMeta, textOf } from '../contract.ts';
import { flood, type Flood } from './flood.ts';
import { eachOnItsServer, openS3, setEnv } from './setup.ts';

const MIB = 2 ** 20;
const ETAG = '"0123456789abcdef0123456789abcdef"';

describe('a body in chunks without end', () => {
  let server: http.Server;
  let store: Store;
  let restore: () => void;
  let sent: Flood;
  beforeEach(async () => {
    sent = { sentBytes: 0 };
    server = http.createServer((request, response) => {
      request.resume();
      response.setHeader('etag', ETAG);
      if (request.method !== 'GET') return response.end();
      const { range } = request.headers;
      if (range !== undefined) response.setHeader('content-range', `${range.replace('=', ' ')}/100`);
      response.writeHead(range === undefined ? 200 : 206).flushHeaders();
      return flood(request.socket, Buffer.from(`10000\r\n${'a'.repeat(65_536)}\r\n`), sent);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    restore = setEnv({
      AWS_ACCESS_KEY_ID: 'a',
      AWS_SECRET_ACCESS_KEY: 'b',
      AWS_REGION: 'us-east-1',
      AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    });
    store = await openS3('s3://lab/run7', 0);
  });
  afterEach(async () => {
    await store.close();
    restore();
    server.closeAllConnections();
    server.close();
  });

  it('is not a range: it ends with an error after the requested bytes', async () => {
    const got = await store.get('r.dat', { range: { first: 10, last: 10 + 3 * MIB } });
    let bytes = 0;
    const take = async (): Promise<void> => {
      for await (const chunk of got?.body ?? []) bytes += chunk.length;
    };
    await expect(take()).rejects.toMatchObject({
      kind: 'transient',
      message: `GetObject s3://lab/run7/r.dat: the answer has more than the ${3 * MIB + 1} bytes asked for`,
    });
    expect(bytes).toBeLessThanOrEqual(3 * MIB + 1);
    expect(sent.sentBytes).toBeLessThan(64 * MIB);
  });

  it('is not read back to its end to check what a put has stored', async () => {
    const meta = newMeta();
    await expect(store.put('r.dat', Buffer.from('aaaa'), { meta })).rejects.toMatchObject({
      kind: 'transient',
    });
    expect(sent.sentBytes).toBeGreaterThan(0);
    expect(sent.sentBytes).toBeLessThan(64 * MIB);
  });
});

let server: S3Server;
let store: Store;
eachOnItsServer(0, (started, opened) => {
  server = started;
  store = opened;
});

it.each([
  ['another range', { 'content-range': 'bytes 4-7/10' }, 'ffff'],
  ['the whole object', {}, 'ffff'],
  ['more than was asked for', { 'content-range': 'bytes 2-9/10' }, 'ffffffff'],
])('%s is not an answer to a ranged request', async (_, headers, body) => {
  server.fault = () => ({ kind: 'answer', status: 206, headers: { etag: ETAG, ...headers }, body });
  await expect(store.get('r.dat', { range: { first: 2, last: 5 } })).rejects.toMatchObject({
    kind: 'transient',
    message: expect.stringContaining('the answer is not one of S3'),
  });
});

it('a range may end with its object, and one from the beginning may be answered by the whole object', async () => {
  await store.put('r.dat', Buffer.from('0123456789'), { meta: newMeta() });
  const read = async (first: number): Promise<string> =>
    textOf((await store.get('r.dat', { range: { first, last: 19 } }))?.body);
  expect(await read(7)).toBe('789');
  server.fault = () => ({ kind: 'answer', status: 200, headers: { etag: ETAG }, body: '0123456789' });
  expect(await read(0)).toBe('0123456789');
});

/** Answers each listing with the page of that number, from 1. */
function answerPages(to: S3Server, root: string, page: (nth: number) => string): () => number {
  let pages = 0;
  to.fault = ({ operation }) => {
    if (!operation?.startsWith('List')) return undefined;
    pages += 1;
    const body = `<${root}><IsTruncated>true</IsTruncated>${page(pages)}</${root}>`;
    return { kind: 'answer', status: 200, body };
  };
  return () => pages;
}

const token = (nth: number): string => `<NextContinuationToken>${nth}</NextContinuationToken>`;
const markers = (key: string, id: number): string =>
  `<NextKeyMarker>${key}</NextKeyMarker><NextUploadIdMarker>${id}</NextUploadIdMarker>`;
const sweep = (): Promise<boolean> => store.sweep('', () => false);
const ENDLESS = {
  kind: 'refused',
  message: expect.stringContaining('100 pages in a row lead no further'),
  hint: expect.stringContaining('AWS_ENDPOINT_URL'),
};

describe('a listing', () => {
  it('of objects ends after many pages without keys', async () => {
    const pages = answerPages(server, 'ListBucketResult', token);
    await expect(listOf(store, '')).rejects.toMatchObject(ENDLESS);
    expect(pages()).toBe(100);
  });

  it('may have pages without keys', async () => {
    const key = (nth: number): string => `<Contents><Key>run7/${1000 + nth}</Key></Contents>`;
    let pages = 0;
    server.fault = () => {
      pages += 1;
      const more =
        pages < 200 ? `<IsTruncated>true</IsTruncated>${token(pages)}` : '<IsTruncated>false</IsTruncated>';
      const body = `<ListBucketResult>${more}${pages % 100 === 0 ? key(pages) : ''}</ListBucketResult>`;
      return { kind: 'answer', status: 200, body };
    };
    expect(await listOf(store, '')).toEqual(['1100', '1200']);
  });

  it.each([
    ['do not ascend', ['b', 'a']],
    ['are repeated', ['a', 'a']],
  ])('of objects whose keys %s is refused at once', async (_, names) => {
    const keys = names.map((key) => `<Contents><Key>run7/${key}</Key></Contents>`).join('');
    const pages = answerPages(server, 'ListBucketResult', (nth) => token(nth) + keys);
    await expect(listOf(store, '')).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringContaining('the keys of the listing do not ascend'),
      hint: expect.stringContaining('UTF-8'),
    });
    expect(pages()).toBe(1);
  });

  it('of uploads is not valid if a page leads to itself', async () => {
    const pages = answerPages(server, 'ListMultipartUploadsResult', () => markers('a', 1));
    await expect(sweep()).rejects.toThrow('the answer is not one of S3');
    expect(pages()).toBe(2);
  });

  it.each([
    ['no uploads', ''],
    ['the same ones', '<Upload><Key>run7/a</Key><UploadId>1</UploadId></Upload>'],
  ])('of uploads ends after many pages with %s', async (_, uploads) => {
    const pages = answerPages(server, 'ListMultipartUploadsResult', (nth) => markers('a', nth % 2) + uploads);
    await expect(sweep()).rejects.toMatchObject(ENDLESS);
    expect(pages()).toBeLessThanOrEqual(101);
  });

  it('of uploads may hold several uploads of one key', async () => {
    const abort = new AbortController();
    server.fault = ({ operation }) => (operation === 'UploadPart' ? { kind: 'stall' } : undefined);
    const hanging = ['b', 'a', 'a'].map((key) =>
      store.put(key, chunks([Buffer.alloc(5 * MIB), Buffer.alloc(1)]), {
        meta: newMeta(),
        signal: abort.signal,
      }),
    );
    await expect.poll(() => server.pendingUploads().length, { timeout: 10_000 }).toBe(3);
    await store.sweep('', (key) => key === 'a');
    expect(server.pendingUploads()).toEqual(['run7/b']);
    abort.abort(new Error('over'));
    await Promise.allSettled(hanging);
  });
});
