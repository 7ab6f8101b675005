import { describe, expect, it } from 'vitest';
import { ABSENT, type Precondition, type Store } from '../../../src/store/contract/store.ts';
import type { Fault } from '../../s3-server/faults.ts';
import type { IfMatch, Operation } from '../../s3-server/operations.ts';
import { startS3Server, type Incoming, type S3Server } from '../../s3-server/server.ts';
import { chunks, kindOf, listOf, newMeta, storeContract, textOf } from '../contract.ts';
import { eachOnItsServer, openS3, setEnv } from './setup.ts';

const MIB = 2 ** 20;

describe.each<IfMatch>(['honoured', 'bare', 'refused', 'ignored'])('where If-Match is %s', (ifMatch) => {
  storeContract('the S3 store', async (onTry) => {
    const server = await startS3Server({ ifMatch });
    const restore = setEnv(server.env);
    const store = await openS3(`s3://${server.bucket}/lab 7/run`, undefined, onTry);
    return {
      store,
      cleanup: async () => {
        await store.close();
        restore();
        await server.stop();
      },
    };
  });
});

describe('the S3 store', () => {
  let server: S3Server;
  let store: Store;
  eachOnItsServer(20_000, (started, opened) => {
    server = started;
    store = opened;
  });

  const put = (text: string): Promise<string> =>
    kindOf(store.put('r.dat', Buffer.from(text), { meta: newMeta() }));
  const putNew = (text: string): Promise<string> =>
    kindOf(store.put('r.dat', Buffer.from(text), { meta: newMeta(), precondition: ABSENT }));
  const putParts = (precondition?: Precondition, signal?: AbortSignal): Promise<string> => {
    const body = chunks([1, 2, 3].map((fill) => Buffer.alloc(5 * MIB, fill)));
    return kindOf(store.put('big.chk', body, { meta: newMeta(), precondition, signal }));
  };
  /** The fault for the first requests of an operation. */
  const faulty =
    (operation: Operation, fault: Fault, times = 1) =>
    (incoming: Incoming): Fault | undefined =>
      incoming.operation === operation && incoming.nth <= times ? fault : undefined;
  const count = (operation: Operation): number =>
    server.served.filter((one) => one.operation === operation).length;
  const visible = (key: string): number => server.versions(`run7/${key}`).length;

  describe('retries', () => {
    it.each<[string, Fault]>([
      ['503 SlowDown', { kind: 'answer', status: 503, code: 'SlowDown' }],
      ['429', { kind: 'answer', status: 429, code: 'TooManyRequests' }],
      ['500 with a page of HTML', { kind: 'answer', status: 500, body: '<html><body>oops</body></html>' }],
      ['502 with no XML at all', { kind: 'answer', status: 502, body: 'Bad Gateway' }],
      ['503 with an empty body', { kind: 'answer', status: 503, body: '' }],
      ['400 RequestTimeout', { kind: 'answer', status: 400, code: 'RequestTimeout' }],
      ['409 ConditionalRequestConflict', { kind: 'answer', status: 409, code: 'ConditionalRequestConflict' }],
      ['a connection that breaks', { kind: 'reset', afterBytes: 0 }],
    ])('after %s', async (_, fault) => {
      server.fault = faulty('PutObject', fault, 3);
      expect(await put('bytes')).toBe('stored');
      expect(count('PutObject')).toBe(4);
      expect(visible('r.dat')).toBe(1);
    });

    it.each<[Operation, () => Promise<unknown>]>([
      ['HeadObject', () => store.head('r.dat')],
      ['GetObject', () => store.get('r.dat').then((got) => textOf(got?.body))],
      ['ListObjectsV2', () => listOf(store, '')],
      ['DeleteObject', () => store.delete(['r.dat'])],
      ['CopyObject', () => store.copy('r.dat', 'copy')],
      ['ListMultipartUploads', () => store.sweep('', () => true)],
    ])('a %s', async (operation, work) => {
      await put('bytes');
      server.fault = faulty(operation, { kind: 'answer', status: 503, body: 'busy' }, 2);
      await work();
      expect(count(operation)).toBe(3);
    });

    it('one part after its connection broke in the middle, and no other', async () => {
      server.fault = faulty('UploadPart', { kind: 'reset', afterBytes: MIB });
      expect(await putParts()).toBe('stored');
      expect(count('UploadPart')).toBe(4);
      expect(server.versions('run7/big.chk').map((version) => version.sizeBytes)).toEqual([15 * MIB]);
    });

    it('until its budget is spent, and says how often', async () => {
      const hasty = await openS3('s3://lab/run7', 400);
      server.fault = () => ({ kind: 'answer', status: 503, code: 'SlowDown' });
      const outcome = hasty.put('r.dat', Buffer.from('x'), { meta: newMeta() });
      await expect(outcome).rejects.toMatchObject({ name: 'StoreError', kind: 'busy' });
      await expect(outcome).rejects.toThrow(
        /^PutObject s3:\/\/lab\/run7\/r\.dat: the server is busy \(http 503, SlowDown, [2-9]\d* tries\)$/,
      );
      await hasty.close();
    });

    it('no longer when it is aborted', async () => {
      const abort = new AbortController();
      server.fault = ({ nth }) => {
        if (nth === 2) abort.abort(new Error('the deadline'));
        return { kind: 'answer', status: 503, code: 'SlowDown' };
      };
      await expect(store.head('r.dat', abort.signal)).rejects.toThrow('the deadline');
    });
  });

  describe('settles an answer that was lost', () => {
    it('to a PutObject: it took place once', async () => {
      server.fault = faulty('PutObject', { kind: 'lose-answer' });
      expect(await put('bytes')).toBe('stored');
      expect(visible('r.dat')).toBe(1);
    });

    it('to a create: the object there is ours', async () => {
      server.fault = faulty('PutObject', { kind: 'lose-answer' });
      expect(await putNew('bytes')).toBe('stored');
      expect(visible('r.dat')).toBe(1);
    });

    it('to a create whose answer said 500, then that it exists', async () => {
      server.fault = (incoming) =>
        incoming.operation === 'HeadObject' && incoming.nth === 1
          ? { kind: 'answer', status: 503 }
          : faulty('PutObject', { kind: 'error-after-work', status: 500, code: 'InternalError' })(incoming);
      expect(await putNew('bytes')).toBe('stored');
      expect(count('PutObject')).toBe(2);
      expect(visible('r.dat')).toBe(1);
    });

    it('to a create that lost against another one: it exists', async () => {
      await put('theirs');
      server.fault = faulty('PutObject', { kind: 'reset', afterBytes: 0 }, 2);
      expect(await putNew('ours')).toBe('exists');
      expect(visible('r.dat')).toBe(1);
    });

    it.each<[string, Fault]>([
      ['no answer', { kind: 'lose-answer' }],
      ['an error in a good answer', { kind: 'error-after-work', status: 200, code: 'InternalError' }],
      ['503', { kind: 'error-after-work', status: 503, code: 'SlowDown' }],
      ['NoSuchUpload', { kind: 'error-after-work', status: 404, code: 'NoSuchUpload' }],
    ])('to a completion that took place but got %s', async (_, fault) => {
      server.fault = faulty('CompleteMultipartUpload', fault);
      expect(await putParts()).toBe('stored');
      expect(visible('big.chk')).toBe(1);
      expect(server.pendingUploads()).toEqual([]);
    });

    it('to a completion that did not take place: it is tried again', async () => {
      server.fault = faulty('CompleteMultipartUpload', {
        kind: 'answer',
        status: 200,
        body: '<Error><Code>InternalError</Code></Error>',
      });
      expect(await putParts()).toBe('stored');
      expect(visible('big.chk')).toBe(1);
    });

    it('to a create-only completion that lost against another one: it exists, and no parts are left', async () => {
      server.fault = (incoming) => {
        if (incoming.operation !== 'UploadPart' || incoming.nth !== 3) return undefined;
        return { kind: 'delay', until: store.put('big.chk', Buffer.from('theirs'), { meta: newMeta() }) };
      };
      expect(await putParts(ABSENT)).toBe('exists');
      expect(server.versions('run7/big.chk').map((version) => version.bytes?.toString())).toEqual(['theirs']);
      expect(server.pendingUploads()).toEqual([]);
    });
  });

  describe('leaves no parts behind', () => {
    it('when it is aborted while a part is under way', async () => {
      const abort = new AbortController();
      server.fault = (incoming) => {
        if (incoming.operation !== 'UploadPart') return undefined;
        abort.abort(new Error('the deadline'));
        return { kind: 'stall' };
      };
      await expect(putParts(undefined, abort.signal)).rejects.toThrow('the deadline');
      expect(count('AbortMultipartUpload')).toBe(1);
      expect(server.pendingUploads()).toEqual([]);
    });

    it('when one part is refused, and stops reading the body', async () => {
      server.fault = faulty('UploadPart', { kind: 'answer', status: 403, code: 'AccessDenied' });
      let given = 0;
      const body = (async function* parts() {
        for (; given < 50; given += 1) yield Buffer.alloc(5 * MIB);
      })();
      const outcome = store.put('big.chk', body, { meta: newMeta() });
      await expect(outcome).rejects.toMatchObject({
        kind: 'denied',
        message: expect.stringContaining('UploadPart s3://lab/run7/big.chk'),
      });
      expect(given).toBeLessThan(6);
      expect(server.pendingUploads()).toEqual([]);
    });

    it('when one part is refused, and does not wait for the others', { timeout: 15_000 }, async () => {
      server.fault = (incoming) => {
        if (incoming.operation !== 'UploadPart') return undefined;
        return incoming.nth === 1 ? { kind: 'stall' } : { kind: 'answer', status: 403, code: 'AccessDenied' };
      };
      await expect(putParts()).rejects.toMatchObject({ kind: 'denied' });
      expect(server.pendingUploads()).toEqual([]);
    });

    it('when the completion is refused', async () => {
      server.fault = faulty('CompleteMultipartUpload', { kind: 'answer', status: 400, code: 'InvalidPart' });
      await expect(putParts()).rejects.toMatchObject({ kind: 'refused' });
      expect(server.pendingUploads()).toEqual([]);
      expect(visible('big.chk')).toBe(0);
    });

    it('when another client has ended the upload', async () => {
      server.fault = faulty('UploadPart', { kind: 'answer', status: 404, code: 'NoSuchUpload' });
      await expect(putParts()).rejects.toThrow(/the upload is gone.*http 404, NoSuchUpload, 1 try/);
    });

    it('when an earlier process was killed: sweep aborts its own uploads only', async () => {
      server.fault = faulty('UploadPart', { kind: 'stall' }, 99);
      const abort = new AbortController();
      const keys = ['mine + 0', 'yours + 1', 'mine + 2'];
      const hanging = keys.map((key) =>
        store.put(key, chunks([Buffer.alloc(5 * MIB), Buffer.alloc(1)]), {
          meta: newMeta(),
          signal: abort.signal,
        }),
      );
      await expect.poll(() => server.pendingUploads().length, { timeout: 10_000 }).toBe(3);
      await store.sweep('', (key) => key.startsWith('mine'));
      expect(server.pendingUploads().toSorted()).toEqual(['run7/yours + 1']);
      abort.abort(new Error('over'));
      await Promise.allSettled(hanging);
    });

    it.each([501, 405, 403])('as far as the server allows: sweep accepts %i as an answer', async (status) => {
      server.fault = faulty('ListMultipartUploads', { kind: 'answer', status });
      await expect(store.sweep('', () => true)).resolves.toBe(false);
    });
  });

  it('covers every body by a hash that the server checks, and sends no trailer', async () => {
    await put('bytes');
    await putParts();
    const bodies = server.served.filter(
      ({ operation }) => operation === 'PutObject' || operation === 'UploadPart',
    );
    expect(bodies).toHaveLength(5);
    for (const { headers } of bodies) {
      expect(headers['x-amz-content-sha256']).toMatch(/^[0-9a-f]{64}$/);
      expect(headers['content-length']).toMatch(/^\d+$/);
      expect(headers['expect']).toBeUndefined();
      expect(Object.keys(headers).filter((name) => name.includes('trailer'))).toEqual([]);
    }
  });

  it('checks before a create-only upload, for servers that ignore its condition', async () => {
    await store.put('big.chk', Buffer.from('theirs'), { meta: newMeta() });
    server.fault = () => ({ kind: 'ignore-condition' });
    expect(await putParts(ABSENT)).toBe('exists');
    expect(count('CreateMultipartUpload')).toBe(0);
  });

  it('does not claim that an unknown server creates atomically', async () => {
    await put('bytes');
    expect(store.createsAtomically).toBe(false);
  });

  it('throws if a body is shorter than promised', async () => {
    await put('0123456789');
    server.fault = faulty('GetObject', { kind: 'cut-answer', afterBytes: 4 });
    const got = await store.get('r.dat');
    await expect(textOf(got?.body)).rejects.toMatchObject({
      kind: 'transient',
      message: expect.stringContaining('of 10 bytes'),
    });
  });

  it('ends the reading of a body when the signal is aborted', async () => {
    await store.put('r.dat', Buffer.alloc(8 * MIB), { meta: newMeta() });
    const abort = new AbortController();
    const got = await store.get('r.dat', { signal: abort.signal });
    const reading = (async () => {
      for await (const _ of got?.body ?? []) abort.abort(new Error('enough'));
    })();
    await expect(reading).rejects.toThrow('enough');
  });

  it('lists more keys than fit on a page', async () => {
    const keys = Array.from({ length: 1003 }, (_, at) => `many/${String(at).padStart(5, '0')} +`);
    const left = keys.values();
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        for (const key of left) await store.put(key, Buffer.from('x'), { meta: newMeta() });
      }),
    );
    expect(await listOf(store, 'many/')).toEqual(keys);
    expect(count('ListObjectsV2')).toBe(2);
  });

  it('keeps to its prefix', async () => {
    await put('bytes');
    const other = await openS3('s3://lab/run77/');
    expect(await listOf(other, '')).toEqual([]);
    expect(server.keys()).toEqual(['run7/r.dat']);
    await other.close();
  });

  it('finds a request that moves no byte, and retries it', async () => {
    const { openBucket } = await import('../../../src/store/s3/bucket.ts');
    const { headObject } = await import('../../../src/store/s3/objects.ts');
    await put('bytes');
    const bucket = await openBucket(
      { url: 's3://lab/run7', flags: ['path-style'], unfenced: false },
      20_000,
      {
        stallMs: 200,
      },
    );
    server.fault = faulty('HeadObject', { kind: 'stall' }, 2);
    expect((await headObject(bucket, 'r.dat'))?.sizeBytes).toBe(5);
    expect(count('HeadObject')).toBe(3);
    bucket.close();
  });

  it('copies an object that is too large for one CopyObject in parts', async () => {
    const { openBucket } = await import('../../../src/store/s3/bucket.ts');
    const { copyObject } = await import('../../../src/store/s3/copy.ts');
    await putParts();
    const bucket = await openBucket({ url: 's3://lab/run7', flags: ['path-style'], unfenced: false }, 20_000);
    server.fault = faulty('CompleteMultipartUpload', { kind: 'lose-answer' }, 2);
    await copyObject(
      bucket,
      { from: 'big.chk', to: 'copy of big' },
      { singleBytes: 6 * MIB, partBytes: 6 * MIB },
    );
    const [from] = server.versions('run7/big.chk');
    const [to] = server.versions('run7/copy of big');
    expect(to?.bytes?.equals(from?.bytes ?? Buffer.alloc(0))).toBe(true);
    expect(to?.meta).toEqual(from?.meta);
    expect(count('UploadPartCopy')).toBe(3);
    bucket.close();
  });
});
