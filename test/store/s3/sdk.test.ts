// What only the SDK reaches: directory buckets and access points keep the contract, and uploads by lib-storage hold in
// each fault that those of our own hold in.
import v8 from 'node:v8';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { ABSENT, type Precondition, type Store } from '../../../src/store/contract/store.ts';
import { openStore } from '../../../src/store/open.ts';
import type { Fault } from '../../s3-server/faults.ts';
import type { Operation } from '../../s3-server/operations.ts';
import { startS3Server, type Incoming, type S3Server } from '../../s3-server/server.ts';
import { chunks, kindOf, listOf, newMeta, storeContract, textOf } from '../contract.ts';
import { setEnv } from './setup.ts';

const MIB = 2 ** 20;
const DIRECTORY = 'lab--usw2-az1--x-s3';
const ARN = 'arn:aws:s3:eu-west-1:123456789012:accesspoint/lab';

interface Opened {
  readonly server: S3Server;
  readonly close: () => Promise<void>;
  open(prefix: string, budgetMs?: number): Promise<Store>;
}

/** A server, and how to open a store on it. */
async function opened(kind: 'directory' | 'access point'): Promise<Opened> {
  const isDirectory = kind === 'directory';
  const bucket = isDirectory ? DIRECTORY : ARN;
  const host = isDirectory ? `${DIRECTORY}.s3.test` : 'lab-123456789012.s3.test';
  const server = await startS3Server({ bucket, isDirectory, host });
  // No name leads there: a proxy does.
  const restore = setEnv({
    ...server.env,
    AWS_ENDPOINT_URL_S3: 'http://s3.test',
    HTTP_PROXY: server.url,
  });
  const stores: Store[] = [];
  return {
    server,
    open: async (prefix, budgetMs) => {
      const store = await openStore(
        { url: `s3://${bucket}/${prefix}`, flags: [], unfenced: false },
        { budgetMs },
      );
      stores.push(store);
      return store;
    },
    close: async () => {
      for (const store of stores) await store.close();
      restore();
      await server.stop();
    },
  };
}

describe.each(['directory', 'access point'] as const)('a store behind a %s', (kind) => {
  storeContract(`the S3 store by the SDK (${kind})`, async (onTry) => {
    const { server, close } = await opened(kind);
    const url = `s3://${server.bucket}/lab 7/run`;
    const store = await openStore({ url, flags: [], unfenced: false }, { onTry });
    return {
      store,
      cleanup: async () => {
        await store.close();
        await close();
      },
    };
  });

  let place: Opened;
  let server: S3Server;
  let store: Store;
  beforeEach(async () => {
    place = await opened(kind);
    server = place.server;
    store = await place.open('run7', 20_000);
  });
  afterEach(() => place.close());

  const putParts = (
    options: { precondition?: Precondition; signal?: AbortSignal; to?: Store } = {},
  ): Promise<string> => {
    const body = chunks([1, 2, 3].map((fill) => Buffer.alloc(5 * MIB, fill)));
    const { to = store, ...rest } = options;
    return kindOf(to.put('big.chk', body, { meta: newMeta(), ...rest }));
  };
  const faulty =
    (operation: Operation, fault: Fault, times = 1) =>
    (incoming: Incoming): Fault | undefined =>
      incoming.operation === operation && incoming.nth <= times ? fault : undefined;
  const count = (operation: Operation): number =>
    server.served.filter((one) => one.operation === operation).length;
  const visible = (key: string): number => server.versions(`run7/${key}`).length;

  it.each<[Operation, Fault]>([
    ['CreateMultipartUpload', { kind: 'answer', status: 503, code: 'SlowDown' }],
    ['CreateMultipartUpload', { kind: 'answer', status: 200, body: '<html></html>' }],
    ['UploadPart', { kind: 'answer', status: 500, body: 'Oops' }],
    ['UploadPart', { kind: 'reset', afterBytes: MIB }],
    ['UploadPart', { kind: 'lose-answer' }],
    ['UploadPart', { kind: 'no-etag' }],
    ['UploadPart', { kind: 'answer', status: 400, code: 'ExpiredToken' }],
    ['UploadPart', { kind: 'damage' }],
    ['CompleteMultipartUpload', { kind: 'answer', status: 409, code: 'ConditionalRequestConflict' }],
    ['CompleteMultipartUpload', { kind: 'lose-answer' }],
    ['CompleteMultipartUpload', { kind: 'error-after-work', status: 200, code: 'InternalError' }],
    ['CompleteMultipartUpload', { kind: 'error-after-work', status: 503, code: 'SlowDown' }],
    ['CompleteMultipartUpload', { kind: 'error-after-work', status: 404, code: 'NoSuchUpload' }],
    ['CompleteMultipartUpload', { kind: 'answer', status: 200, body: '<html></html>' }],
  ])('stores a large body once, although %s meets %j', async (operation, fault) => {
    server.fault = faulty(operation, fault);
    expect(await putParts({ precondition: ABSENT })).toBe('stored');
    expect(server.versions('run7/big.chk').map(({ sizeBytes }) => sizeBytes)).toEqual([15 * MIB]);
    expect(server.pendingUploads()).toEqual([]);
  });

  it('believes no completion that names fewer parts', async () => {
    const etag = '"0123456789abcdef0123456789abcdef-1"';
    const bytes = (sent: Buffer): Buffer => sent.subarray(0, MIB);
    server.fault = faulty('CompleteMultipartUpload', { kind: 'store-other', etag, bytes }, 99);
    await expect(putParts()).rejects.toThrow('other bytes than were sent');
  });

  it('reports what failed, where and how often, and leaves no parts', async () => {
    server.fault = faulty('UploadPart', { kind: 'answer', status: 403, code: 'AccessDenied' }, 99);
    const denied = putParts();
    await expect(denied).rejects.toMatchObject({ name: 'StoreError', kind: 'denied' });
    await expect(denied).rejects.toThrow(
      `UploadPart s3://${server.bucket}/run7/big.chk: access denied (http 403, AccessDenied, 1 try)`,
    );
    expect(server.pendingUploads()).toEqual([]);
    expect(visible('big.chk')).toBe(0);
  });

  it('retries a part until its budget is spent', async () => {
    const hasty = await place.open('run7', 40);
    server.fault = faulty('UploadPart', { kind: 'answer', status: 503, code: 'SlowDown' }, 99);
    await expect(putParts({ to: hasty })).rejects.toMatchObject({ kind: 'busy' });
    expect(server.pendingUploads()).toEqual([]);
  });

  it(
    'stops reading a body when a part is refused, and waits for no other part',
    { timeout: 20_000 },
    async () => {
      server.fault = ({ operation, nth }) => {
        if (operation !== 'UploadPart') return undefined;
        return nth === 1 ? { kind: 'stall' } : { kind: 'answer', status: 403, code: 'AccessDenied' };
      };
      let given = 0;
      const body = (async function* parts() {
        for (; given < 50; given += 1) yield Buffer.alloc(5 * MIB);
      })();
      await expect(store.put('big.chk', body, { meta: newMeta() })).rejects.toMatchObject({ kind: 'denied' });
      expect(given).toBeLessThan(8);
      expect(server.pendingUploads()).toEqual([]);
    },
  );

  it('ends a part that is under way when it is aborted, and the upload', async () => {
    const abort = new AbortController();
    server.fault = ({ operation }) => {
      if (operation !== 'UploadPart') return undefined;
      abort.abort(new Error('the deadline'));
      return { kind: 'stall' };
    };
    await expect(putParts({ signal: abort.signal })).rejects.toThrow('the deadline');
    expect(count('AbortMultipartUpload')).toBe(1);
    expect(server.pendingUploads()).toEqual([]);
  });

  it('loses a create-only upload against another: it exists, and no parts are left', async () => {
    server.fault = ({ operation, nth }) => {
      if (operation !== 'UploadPart' || nth !== 3) return undefined;
      return { kind: 'delay', until: store.put('big.chk', Buffer.from('theirs'), { meta: newMeta() }) };
    };
    expect(await putParts({ precondition: ABSENT })).toBe('exists');
    expect(server.versions('run7/big.chk').map(({ bytes }) => bytes?.toString())).toEqual(['theirs']);
    expect(server.pendingUploads()).toEqual([]);
  });

  it('throws if a body breaks off while it is read', async () => {
    await store.put('r.dat', Buffer.from('0123456789'), { meta: newMeta() });
    server.fault = faulty('GetObject', { kind: 'cut-answer', afterBytes: 4 });
    const got = await store.get('r.dat');
    await expect(textOf(got?.body)).rejects.toMatchObject({ kind: 'transient' });
  });

  it('removes only our own uploads below its prefix', async () => {
    server.fault = faulty('UploadPart', { kind: 'stall' }, 99);
    const abort = new AbortController();
    const hanging = ['a/mine', 'a/yours', 'ab/mine'].map((key) =>
      store.put(key, chunks([Buffer.alloc(5 * MIB), Buffer.alloc(1)]), {
        meta: newMeta(),
        signal: abort.signal,
      }),
    );
    await expect.poll(() => server.pendingUploads().length, { timeout: 10_000 }).toBe(3);
    await store.sweep('a/', (key) => key.endsWith('mine'));
    expect(server.pendingUploads().toSorted()).toEqual(['run7/a/yours', 'run7/ab/mine']);
    abort.abort(new Error('over'));
    await Promise.allSettled(hanging);
  });
});

describe('a directory bucket', () => {
  let place: Opened;
  let store: Store;
  beforeEach(async () => {
    place = await opened('directory');
    store = await place.open('run7', 20_000);
  });
  afterEach(() => place.close());

  const put = (key: string): Promise<unknown> => store.put(key, Buffer.from('x'), { meta: newMeta() });

  it('is listed in order, over several pages', async () => {
    const keys = Array.from({ length: 1003 }, (_, at) => `many/${String(at).padStart(5, '0')}`);
    for (const key of keys) place.server.plant(`run7/${key}`, Buffer.from('x'), 0);
    expect(await listOf(store, 'many/')).toEqual(keys);
    expect(await listOf(store, 'many/0100')).toEqual(['many/01000', 'many/01001', 'many/01002']);
    expect(store.listsByPage).toBe(false);
  });

  it('is not listed for ever: many empty pages end the listing', async () => {
    let pages = 0;
    place.server.fault = ({ operation }) => {
      if (operation !== 'ListObjectsV2') return undefined;
      pages += 1;
      const token = `<NextContinuationToken>${pages}</NextContinuationToken>`;
      const body = `<ListBucketResult><IsTruncated>true</IsTruncated>${token}</ListBucketResult>`;
      return { kind: 'answer', status: 200, body };
    };
    const why = '100 pages in a row lead no further';
    await expect(listOf(store, 'a/')).rejects.toThrow(why);
    await expect(store.folders('a/')).rejects.toThrow(why);
  });

  it('is not listed for ever: it is sorted only while its keys fit into memory', async () => {
    const { heap_size_limit: limit, ...others } = v8.getHeapStatistics();
    const spy = vi.spyOn(v8, 'getHeapStatistics');
    onTestFinished(() => spy.mockRestore());
    spy.mockReturnValue({ ...others, heap_size_limit: limit / 2 ** 12 });
    let keys = 0;
    place.server.fault = ({ operation, query }) => {
      if (operation !== 'ListObjectsV2') return undefined;
      const [around, name] = query.has('delimiter') ? ['CommonPrefixes', 'Prefix'] : ['Contents', 'Key'];
      const page = Array.from({ length: 1000 }, () => {
        keys += 1;
        return `<${around}><${name}>run7/a/${keys}/</${name}></${around}>`;
      });
      const token = `<NextContinuationToken>${keys}</NextContinuationToken>`;
      const body = `<ListBucketResult><IsTruncated>true</IsTruncated>${token}${page.join('')}</ListBucketResult>`;
      return { kind: 'answer', status: 200, body };
    };
    const why = /objects in s3:.*fit into memory/;
    await expect(listOf(store, 'a/')).rejects.toThrow(why);
    await expect(store.folders('a/')).rejects.toThrow(why);
  });

  it('uses one session for many requests, and another when that has expired', async () => {
    await Promise.all(['a', 'b', 'c'].map(put));
    expect(place.server.served.filter(({ operation }) => operation === 'CreateSession')).toHaveLength(1);
    place.server.endSessions();
    await store.head('a').catch(() => undefined);
    await put('d');
    expect(await listOf(store, '')).toEqual(['a', 'b', 'c', 'd']);
  });

  it('reports that it gets no session', async () => {
    place.server.credentials = [];
    const hasty = await place.open('run7', 0);
    await expect(hasty.put('a', Buffer.from('x'), { meta: newMeta() })).rejects.toMatchObject({
      kind: 'denied',
      message: expect.stringContaining('unknown access key'),
    });
  });
});
