// What an answer says of the bytes is compared with what was sent.
import { beforeEach, describe, expect, it } from 'vitest';
import { ABSENT, type Store, type StoreError } from '../../../src/store/contract/store.ts';
import type { Fault } from '../../s3-server/faults.ts';
import type { S3Server } from '../../s3-server/server.ts';
import type { Checksums } from '../../s3-server/operations.ts';
import { chunks, kindOf, newMeta, textOf } from '../contract.ts';
import { eachOnItsServer } from './setup.ts';

const PART = 5 * 2 ** 20;

let server: S3Server;
let store: Store;
eachOnItsServer(2000, (started, opened) => {
  server = started;
  store = opened;
});

const put = (key: string): Promise<string> =>
  kindOf(store.put(key, Buffer.from('bytes'), { meta: newMeta(), precondition: ABSENT }));
const reads = (): number => server.served.filter(({ operation }) => operation === 'GetObject').length;
const toPuts = (fault: Fault): void => {
  server.fault = ({ operation }) => (operation === 'PutObject' ? fault : undefined);
};

it('a put whose bytes were changed in transit is no success', async () => {
  toPuts({ kind: 'damage' });
  await expect(put('r.dat')).rejects.toMatchObject({
    kind: 'transient',
    message: expect.stringContaining('other bytes than were sent'),
  });
});

it('a checksum in the answer shows it, too', async () => {
  toPuts({ kind: 'add-headers', headers: { 'x-amz-checksum-crc32': 'AAAAAA==' } });
  expect(await put('r.dat')).toBe('stored');
  expect(reads()).toBe(1);
  toPuts({
    kind: 'add-headers',
    headers: { 'x-amz-checksum-sha256': 'J3CJ2RwL308uaGK6fkoHYFEZQx9dE/cm3TUrBvGyBqk=' },
  });
  await put('s.dat');
  expect(reads()).toBe(1);
});

describe.each<Checksums>(['checked', 'unknown', 'refused'])(
  'on a server by which sums of parts are %s',
  (checksums) => {
    const big = (): Promise<string> =>
      kindOf(
        store.put('big', chunks([Buffer.alloc(PART, 1), Buffer.alloc(PART, 2), Buffer.alloc(10, 3)]), {
          meta: newMeta(),
        }),
      );
    beforeEach(async () => {
      server.checksums = checksums;
      // As the claim of each attempt: from then on its ETags are known to be md5s.
      await put('claim');
    });

    it('an upload is whole', async () => {
      expect(await big()).toBe('stored');
      expect(server.versions('run7/big').at(-1)?.bytes).toHaveLength(2 * PART + 10);
    });

    it('a part whose bytes were changed in transit is sent again, or the put fails', async () => {
      let left = 1;
      server.fault = ({ operation }) =>
        operation === 'UploadPart' && left-- > 0 ? { kind: 'damage' } : undefined;
      const outcome = await big().catch((error: StoreError) => error.message);
      if (checksums === 'checked') expect(outcome).toBe('stored');
      else expect(outcome).toContain('other bytes than were sent');
      for (const { bytes } of server.versions('run7/big')) expect(bytes?.[0]).toBe(1);
    });

    it('a part that the server itself has changed fails the put', async () => {
      server.fault = ({ operation }) =>
        operation === 'UploadPart'
          ? {
              kind: 'add-headers',
              headers: { etag: '"0123456789abcdef0123456789abcdef"', 'x-amz-checksum-crc32': 'AAAAAA==' },
            }
          : undefined;
      await expect(big()).rejects.toThrow('other bytes than were sent');
      expect(server.pendingUploads()).toEqual([]);
    });
  },
);

it('an ETag that is not an md5 causes one read back, and is then ignored', async () => {
  toPuts({ kind: 'add-headers', headers: { etag: '"0123456789abcdef0123456789abcdef"' } });
  for (const key of ['a', 'b', 'c']) expect(await put(key)).toBe('stored');
  expect(reads()).toBe(1);
});

it.each<[string, Readonly<Record<string, string>>]>([
  [
    'encrypted by KMS',
    { etag: '"0123456789abcdef0123456789abcdef"', 'x-amz-server-side-encryption': 'aws:kms' },
  ],
  [
    "encrypted with the customer's key",
    {
      etag: '"0123456789abcdef0123456789abcdef"',
      'x-amz-server-side-encryption-customer-algorithm': 'AES256',
    },
  ],
  ['of parts', { etag: '"0123456789abcdef0123456789abcdef-1"' }],
])('an ETag proves nothing if the object is %s', async (_, headers) => {
  toPuts({ kind: 'add-headers', headers });
  expect(await put('r.dat')).toBe('stored');
  expect(reads()).toBe(0);
  expect(await textOf((await store.get('r.dat'))?.body)).toBe('bytes');
});
