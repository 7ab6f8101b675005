// Something else answers in the place of the store: a captive portal, a misrouted load balancer. It says
// "200 OK", and nothing that S3 says. None of it may be taken for a success, nor for an object, nor for nothing.
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { HttpRequest } from '@smithy/core/protocols';
import { describe, expect, it } from 'vitest';
import { ABSENT, type Store } from '../../../src/store/contract/store.ts';
import { handlerOf } from '../../../src/store/s3/handler.ts';
import type { Transport } from '../../../src/store/http/transport.ts';
import type { Fault } from '../../s3-server/faults.ts';
import type { Operation } from '../../s3-server/operations.ts';
import type { S3Server } from '../../s3-server/server.ts';
import { chunks, kindOf, listOf, newMeta, textOf } from '../contract.ts';
import { eachOnItsServer, openS3 } from './setup.ts';

const MIB = 2 ** 20;
const PORTAL: Fault = { kind: 'answer', status: 200, body: '<html><body>Welcome</body></html>' };
const EMPTY: Fault = { kind: 'answer', status: 200, body: '' };

let server: S3Server;
let store: Store;
eachOnItsServer(0, (started, opened) => {
  server = started;
  store = opened;
});

const put = (key: string): Promise<string> =>
  kindOf(store.put(key, Buffer.from('bytes'), { meta: newMeta() }));
const putParts = (): Promise<string> =>
  kindOf(store.put('big', chunks([1, 2, 3].map((fill) => Buffer.alloc(5 * MIB, fill))), { meta: newMeta() }));

const WORK: readonly (readonly [Operation, () => Promise<unknown>])[] = [
  ['PutObject', () => put('new')],
  ['CreateMultipartUpload', putParts],
  ['UploadPart', putParts],
  ['CompleteMultipartUpload', putParts],
  ['HeadObject', () => store.head('there')],
  ['GetObject', () => store.get('there')],
  ['ListObjectsV2', () => listOf(store, '')],
  ['DeleteObject', () => store.delete(['there'])],
  ['CopyObject', () => store.copy('there', 'copy')],
];

describe.each([
  ['a page of HTML', PORTAL],
  ['nothing', EMPTY],
])('200 OK with %s', (_, fault) => {
  it.each(WORK)('is not an answer to %s', async (operation, work) => {
    await put('there');
    server.fault = (incoming) => (incoming.operation === operation ? fault : undefined);
    await expect(work()).rejects.toMatchObject({ name: 'StoreError', kind: 'transient' });
    await expect(work()).rejects.toThrow(/the answer is not one of S3|InternalError/);
    server.fault = () => undefined;
    expect(await textOf((await store.get('there'))?.body)).toBe('bytes');
    expect(await listOf(store, '')).toEqual(['there']);
  });

  it('is retried, and then the work is done once', async () => {
    const patient = await openS3('s3://lab/run7');
    server.fault = ({ operation, nth }) => (operation === 'PutObject' && nth <= 2 ? fault : undefined);
    expect(await kindOf(patient.put('r.dat', Buffer.from('x'), { meta: newMeta() }))).toBe('stored');
    expect(server.versions('run7/r.dat')).toHaveLength(1);
    await patient.close();
  });
});

describe("a gateway's 404 with a page of HTML", () => {
  const page: Fault = {
    kind: 'answer',
    status: 404,
    body: '<html></html>',
    headers: { 'content-type': 'text/html' },
  };
  it.each<[Operation, () => Promise<unknown>]>([
    ['HeadObject', () => store.head('there')],
    ['GetObject', () => store.get('there')],
    ['DeleteObject', () => store.delete(['there'])],
  ])('says nothing about the object: %s', async (operation, work) => {
    await put('there');
    server.fault = (incoming) => (incoming.operation === operation ? page : undefined);
    await expect(work()).rejects.toMatchObject({
      kind: 'transient',
      message: expect.stringContaining('the answer is not one of S3'),
    });
    server.fault = () => undefined;
    expect(await textOf((await store.get('there'))?.body)).toBe('bytes');
  });
});

describe('a page of a listing that is not the last', () => {
  it.each([
    ['without the token of the next one', ''],
    ['with its own token once more', '<NextContinuationToken>same</NextContinuationToken>'],
  ])('is not an answer %s', async (_, token) => {
    const body = `<ListBucketResult><IsTruncated>true</IsTruncated>${token}</ListBucketResult>`;
    server.fault = () => ({ kind: 'answer', status: 200, body });
    await expect(listOf(store, '')).rejects.toMatchObject({
      kind: 'transient',
      message: expect.stringContaining('the answer is not one of S3'),
    });
  });
});

it.each([
  ['very many elements', '<a/>'.repeat(3_500_000)],
  ['very many attributes', `<a ${"b=''".repeat(3_000_000)}/>`],
  ['a text without end', `<a>${'b'.repeat(15 * MIB)}</a>`],
  ['document types', '<!DOCTYPE a>'.repeat(500_000)],
])('a page of %s, which would take all memory or time, is not an answer', async (_, filler) => {
  const isBefore = filler.startsWith('<!');
  const root = `<IsTruncated>false</IsTruncated>${isBefore ? '' : filler}`;
  const body = `${isBefore ? filler : ''}<ListBucketResult>${root}</ListBucketResult>`;
  server.fault = () => ({ kind: 'answer', status: 200, body });
  await expect(listOf(store, '')).rejects.toThrow('the answer is not one of S3');
});

it('a listing that repeats its keys under new tokens is refused', async () => {
  let pages = 0;
  server.fault = () => {
    pages += 1;
    const token = `<NextContinuationToken>${pages}</NextContinuationToken>`;
    const keys = ['a', 'b'].map((key) => `<Contents><Key>run7/${key}</Key></Contents>`).join('');
    const body = `<ListBucketResult><IsTruncated>true</IsTruncated>${token}${keys}</ListBucketResult>`;
    return { kind: 'answer', status: 200, body };
  };
  await expect(listOf(store, '')).rejects.toMatchObject({
    message: expect.stringContaining('the keys of the listing do not ascend'),
  });
});

it('a document that is nested a million deep is not an answer', async () => {
  const body = '<a>'.repeat(1e6) + '</a>'.repeat(1e6);
  server.fault = () => ({ kind: 'answer', status: 200, body });
  await expect(listOf(store, '')).rejects.toMatchObject({
    message: expect.stringContaining('the answer is not one of S3'),
  });
});

describe('a server that returns no ETag', () => {
  it.each([
    ['PutObject', () => put('new')],
    ['CompleteMultipartUpload', putParts],
  ] as const)('to %s has stored the object if a look finds our push', async (operation, work) => {
    server.fault = (incoming) => (incoming.operation === operation ? { kind: 'no-etag' } : undefined);
    expect(await work()).toBe('stored');
  });
});

describe('a create-only put whose answer is lost, and that another put has replaced since', () => {
  it.each([
    ['PutObject', Buffer.from('ours')],
    // As Ceph RGW does with two that are completed at once: it names no ETag, and knows no condition.
    ['CompleteMultipartUpload', [1, 2].map((fill) => Buffer.alloc(5 * MIB, fill))],
  ] as const)('finds that the key is taken: %s', async (operation, body) => {
    let answers = 0;
    let looks = 0;
    server.fault = (incoming): Fault | undefined => {
      if (incoming.operation === operation) {
        answers += 1;
        if (answers === 1) return { kind: 'no-etag' };
        if (!('if-none-match' in incoming.headers)) return undefined;
        return { kind: 'answer', status: 500, code: 'InternalError' };
      }
      if (incoming.operation !== 'HeadObject' || answers === 0) return undefined;
      looks += 1;
      return looks === 1 ? { kind: 'delay', until: replaced() } : undefined;
    };
    const replaced = (): Promise<unknown> => store.put('raced', Buffer.from('theirs'), { meta: newMeta() });
    const ours = Array.isArray(body) ? chunks(body) : (body as Buffer);
    expect(await kindOf(store.put('raced', ours, { meta: newMeta(), precondition: ABSENT }))).toBe('exists');
    expect(await textOf((await store.get('raced'))?.body)).toBe('theirs');
  });

  it('is retried while there is no object', async () => {
    const patient = await openS3('s3://lab/run7');
    server.fault = ({ operation, nth }) =>
      operation === 'CompleteMultipartUpload' && nth === 1
        ? { kind: 'answer', status: 409, code: 'ConditionalRequestConflict' }
        : undefined;
    const body = chunks([1, 2].map((fill) => Buffer.alloc(5 * MIB, fill)));
    expect(await kindOf(patient.put('raced', body, { meta: newMeta(), precondition: ABSENT }))).toBe(
      'stored',
    );
    await patient.close();
  });
});

it('an endless answer of a service that gives credentials is given up', async () => {
  let sent = 0;
  const body = new Readable({
    read() {
      sent += 2 ** 20;
      this.push(sent > 64 * 2 ** 20 ? null : Buffer.alloc(2 ** 20, 'a'));
    },
  }) as IncomingMessage;
  const answer = { status: 200, headers: {}, body, textMs: 60_000 };
  const transport = { send: async () => answer } as unknown as Transport;
  await expect(handlerOf(transport).handle(new HttpRequest({}))).rejects.toThrow('the answer has no end');
});
