// What the bucket is told of new objects, and what changes with it: a server that encrypts with KMS has no md5 as ETag.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ABSENT, type Store } from '../../../src/store/contract/store.ts';
import { openStore } from '../../../src/store/open.ts';
import { startS3Server, type S3Server } from '../../s3-server/server.ts';
import { chunks, newMeta, storeContract, textOf } from '../contract.ts';
import { setEnv } from './setup.ts';

const MIB = 2 ** 20;

describe('a bucket whose objects are encrypted with KMS', () => {
  storeContract('the S3 store with --sse kms', async (onTry) => {
    const server = await startS3Server({ isEncrypted: true });
    const restore = setEnv(server.env);
    const settings = { url: 's3://lab/run7', flags: ['path-style', 'sse=kms:alias/lab'], unfenced: false };
    const store = await openStore(settings, { onTry });
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

describe('options of objects', () => {
  let server: S3Server;
  let restore: () => void;
  const opened: Store[] = [];
  beforeEach(async () => {
    server = await startS3Server();
    restore = setEnv(server.env);
  });
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close();
    restore();
    await server.stop();
  });

  async function open(...flags: readonly string[]): Promise<Store> {
    const store = await openStore({ url: 's3://lab/run7', flags: ['path-style', ...flags], unfenced: false });
    opened.push(store);
    return store;
  }

  /** The headers of each request of this operation. */
  const told = (operation: string, header: string): readonly unknown[] =>
    server.served.filter((one) => one.operation === operation).map(({ headers }) => headers[header]);

  /** A small object, one of several parts, and a copy. */
  async function storeAll(store: Store): Promise<void> {
    await store.put('small', Buffer.from('small'), { meta: newMeta(), precondition: ABSENT });
    await store.put('large', chunks([Buffer.alloc(8 * MIB), Buffer.alloc(MIB)]), { meta: newMeta() });
    await store.promote('small', 'copy', {});
  }

  it('reach each new object, and no other request', async () => {
    const store = await open(
      'sse=kms:alias/lab',
      'storage-class=STANDARD_IA',
      'tag=project=melt',
      'tag=a b=c/d',
    );
    await storeAll(store);
    expect(await textOf((await store.get('copy'))?.body)).toBe('small');
    for (const operation of ['PutObject', 'CreateMultipartUpload', 'CopyObject']) {
      expect(told(operation, 'x-amz-server-side-encryption'), operation).toEqual(['aws:kms']);
      expect(told(operation, 'x-amz-server-side-encryption-aws-kms-key-id'), operation).toEqual([
        'alias/lab',
      ]);
    }
    // A small object would be billed as 128 KiB.
    expect(told('PutObject', 'x-amz-storage-class')).toEqual([undefined]);
    expect(told('CreateMultipartUpload', 'x-amz-storage-class')).toEqual(['STANDARD_IA']);
    expect(told('PutObject', 'x-amz-tagging')).toEqual(['project=melt&a+b=c%2Fd']);
    expect(told('CreateMultipartUpload', 'x-amz-tagging')).toEqual(['project=melt&a+b=c%2Fd']);
    // It has those of its source.
    expect(told('CopyObject', 'x-amz-tagging')).toEqual([undefined]);
    for (const operation of ['UploadPart', 'CompleteMultipartUpload', 'GetObject', 'HeadObject'])
      for (const name of ['server-side-encryption', 'storage-class', 'tagging', 'request-payer'])
        expect(told(operation, `x-amz-${name}`).filter((value) => value !== undefined)).toEqual([]);
  });

  it('are not told if none is given', async () => {
    await storeAll(await open());
    const names = server.served.flatMap(({ headers }) => Object.keys(headers));
    expect(names.filter((name) => /encryption|storage-class|tagging|payer/.test(name))).toEqual([]);
  });

  it('name who pays with every request', async () => {
    const store = await open('request-payer');
    await storeAll(store);
    await textOf((await store.get('copy'))?.body);
    await store.delete(['copy']);
    expect(server.served.map(({ headers }) => headers['x-amz-request-payer'])).toEqual(
      server.served.map(() => 'requester'),
    );
  });
});
