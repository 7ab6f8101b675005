// What an answer says of the bytes is compared with what was sent.
import { beforeEach, describe, expect, it } from 'vitest';
import { ABSENT, type Store, type StoreError } from '../../../src/store/contract/store.ts';
import type { Fault } from '../../s3-server/faults.ts';
import type { S3Server } from '../../s3-server/server.ts';
import type { Checksums, Operation } from '../../s3-server/operations.ts';
import { chunks, kindOf, newMeta, textOf } from '../contract.ts';
import { eachOnItsServer } from './setup.ts';

const PART = 5 * 2 ** 20;
const MD5 = '0123456789abcdef0123456789abcdef';
/** Of `bytes`. */
const SHA256 = 'J3CJ2RwL308uaGK6fkoHYFEZQx9dE/cm3TUrBvGyBqk=';
const OTHER_BYTES = { kind: 'transient', message: expect.stringContaining('other bytes than were sent') };
const damaged = (sent: Buffer): Buffer => Buffer.from(sent).fill(9, sent.length - 1);

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

it('nor is one whose object has no metadata, which a gateway took away', async () => {
  toPuts({ kind: 'damage', dropsMeta: true });
  await expect(put('r.dat')).rejects.toMatchObject(OTHER_BYTES);
});

it('a put whose object another push has replaced since is stored', async () => {
  let damages = 1;
  server.fault = ({ operation }) => {
    if (operation === 'PutObject' && damages-- > 0) return { kind: 'damage' };
    if (operation !== 'GetObject') return undefined;
    return { kind: 'delay', until: store.put('r.dat', Buffer.from('newer'), { meta: newMeta() }) };
  };
  expect(await put('r.dat')).toBe('stored');
});

it('a checksum in the answer shows it, too', async () => {
  toPuts({ kind: 'add-headers', headers: { 'x-amz-checksum-crc32': 'AAAAAA==' } });
  expect(await put('r.dat')).toBe('stored');
  expect(reads()).toBe(1);
  toPuts({ kind: 'add-headers', headers: { 'x-amz-checksum-sha256': SHA256 } });
  await put('s.dat');
  expect(reads()).toBe(1);
});

it('a checksum that fits proves nothing against an md5 that does not', async () => {
  await put('claim');
  toPuts({
    kind: 'store-other',
    etag: `"${MD5}"`,
    bytes: damaged,
    headers: { 'x-amz-checksum-sha256': SHA256 },
  });
  await expect(put('r.dat')).rejects.toMatchObject(OTHER_BYTES);
});

describe.each<Checksums>(['checked', 'repeated', 'unknown', 'refused'])(
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

    it('whether its sums are its own is asked at most once', async () => {
      await big();
      const probes = (): number =>
        server.served.filter((one) => one.operation === 'UploadPart' && one.headers['content-length'] === '1')
          .length;
      const asked = probes();
      await big();
      expect(probes()).toBe(asked);
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

type Lie = Omit<Extract<Fault, { kind: 'store-other' }>, 'kind'>;

const half = (sent: Buffer): Buffer => sent.subarray(0, sent.length / 2);
const lying = (operation: Operation, lie: Lie): void => {
  server.fault = (incoming) =>
    incoming.operation === operation ? { kind: 'store-other', ...lie } : undefined;
};
/** The looks and reads since the last call. */
let seen = 0;
const looks = (): string[] => {
  const since = server.served.slice(seen).map(({ operation }) => operation);
  seen = server.served.length;
  return since.filter((operation) => operation === 'HeadObject' || operation === 'GetObject');
};
const putBig = (key = 'big'): Promise<string> =>
  kindOf(store.put(key, chunks([Buffer.alloc(PART, 1), Buffer.alloc(10, 2)]), { meta: newMeta() }));

it('a put whose answer is lost is not stored if the object has another md5', async () => {
  await put('claim');
  lying('PutObject', { etag: `"${MD5}"`, bytes: damaged, isLost: true });
  await expect(put('r.dat')).rejects.toMatchObject(OTHER_BYTES);
});

describe('a completion', () => {
  beforeEach(async () => {
    await put('claim');
    seen = server.served.length;
  });

  it('with the ETag of its parts is not looked at', async () => {
    expect(await putBig()).toBe('stored');
    expect(looks()).toEqual([]);
  });

  it.each<[string, Lie]>([
    ['fewer parts', { etag: `"${MD5}-1"`, bytes: half }],
    ['another md5, and is shorter', { etag: `"${MD5}-2"`, bytes: half }],
    ['another md5, and has as many other bytes', { etag: `"${MD5}-2"`, bytes: damaged }],
    ['no md5, and is shorter', { etag: '"abc"', bytes: half }],
    ['fewer parts, in the look after a lost answer', { etag: `"${MD5}-1"`, bytes: half, isLost: true }],
  ])('is not believed if its ETag names %s', async (_, lie) => {
    lying('CompleteMultipartUpload', lie);
    await expect(putBig()).rejects.toMatchObject(OTHER_BYTES);
  });

  it('with another ETag is read back once if all bytes are there, and then only looked at', async () => {
    lying('CompleteMultipartUpload', { etag: `"${MD5}-2"` });
    expect(await putBig('a')).toBe('stored');
    expect(looks()).toEqual(['HeadObject', 'GetObject']);
    expect(await putBig('b')).toBe('stored');
    expect(looks()).toEqual(['HeadObject']);
    lying('CompleteMultipartUpload', { etag: `"${MD5}-2"`, bytes: half });
    await expect(putBig('c')).rejects.toMatchObject(OTHER_BYTES);
  });

  it('of an encrypted object is believed if it names the number of parts', async () => {
    const headers = { 'x-amz-server-side-encryption': 'aws:kms' };
    lying('CompleteMultipartUpload', { etag: `"${MD5}-2"`, headers });
    expect(await putBig('a')).toBe('stored');
    expect(looks()).toEqual([]);
    lying('CompleteMultipartUpload', { etag: `"${MD5}-1"`, bytes: half, headers });
    await expect(putBig('b')).rejects.toMatchObject(OTHER_BYTES);
  });
});

it('a completion is believed by its number of parts where ETags are no md5s', async () => {
  toPuts({ kind: 'add-headers', headers: { etag: `"${MD5}"` } });
  await put('claim');
  seen = server.served.length;
  lying('CompleteMultipartUpload', { etag: `"${MD5}-2"` });
  expect(await putBig()).toBe('stored');
  expect(looks()).toEqual([]);
});

describe('a promotion', () => {
  const promote = (from: string): Promise<string> => kindOf(store.promote(from, `${from}.named`));
  beforeEach(async () => {
    await put('small');
    await putBig();
    seen = server.served.length;
  });

  it("with its source's ETag is not looked at afterwards", async () => {
    expect(await promote('small')).toBe('stored');
    expect(looks()).toEqual(['HeadObject']);
    expect(server.keys()).not.toContain('run7/small');
  });

  it.each<[string, string, Lie]>([
    ['small', 'is shorter', { etag: `"${MD5}"`, bytes: half }],
    ['small', 'has as many other bytes', { etag: `"${MD5}"`, bytes: damaged }],
    ['big', 'is shorter', { etag: `"${MD5}"`, bytes: half }],
  ])('of the %s object keeps its source if the copy has another ETag and %s', async (from, _, lie) => {
    lying('CopyObject', lie);
    await expect(promote(from)).rejects.toMatchObject(OTHER_BYTES);
    expect(server.keys()).toContain(`run7/${from}`);
  });

  it('is done if the bytes are whole, although the ETag is another one', async () => {
    lying('CopyObject', { etag: `"${MD5}"` });
    expect(await promote('small')).toBe('stored');
    expect(looks()).toEqual(['HeadObject', 'HeadObject', 'GetObject']);
    // An upload that is copied at once gets the md5 of its bytes.
    expect(await promote('big')).toBe('stored');
    expect(looks()).toEqual(['HeadObject', 'HeadObject']);
  });

  it('that left a shorter copy has not been done when it is tried again', async () => {
    const again = (): Promise<string> =>
      kindOf(store.promote('small', 'small.named', { precondition: ABSENT }));
    lying('CopyObject', { etag: `"${MD5}"`, bytes: half });
    await expect(again()).rejects.toMatchObject(OTHER_BYTES);
    server.fault = () => undefined;
    expect(await again()).toBe('exists');
    expect(server.keys()).toContain('run7/small');
  });
});
