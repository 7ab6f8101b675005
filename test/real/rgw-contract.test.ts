// The contract of a store against a real server: CAPTURE_TEST_S3_URL is s3://bucket/prefix, the rest comes
// from the AWS environment. Made for Ceph RGW 16, which ignores If-None-Match when an upload is completed.
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { ABSENT, exactly, type Precondition } from '../../src/store/contract/store.ts';
import { listOf, newMeta, storeContract } from '../store/contract.ts';
import { ODD_KEYS, roundTrip } from '../store/s3/odd-keys.ts';
import { openS3 } from '../store/s3/setup.ts';

const url = process.env['CAPTURE_TEST_S3_URL'];
if (url === undefined) throw new Error('set CAPTURE_TEST_S3_URL to s3://bucket/prefix of a server for tests');

storeContract(
  `the S3 store on ${process.env['AWS_ENDPOINT_URL_S3'] ?? 'AWS'}`,
  async (onTry) => {
    const store = await openS3(`${url}/contract-${randomUUID()}`, 20_000, onTry);
    const cleanup = async (): Promise<void> => {
      await store.delete(await listOf(store, ''));
      await store.close();
    };
    return { store, cleanup };
  },
  { uploadsCreateOnly: false },
);

describe('the S3 store on a real server', () => {
  it.each(ODD_KEYS)('takes the key %s as it is', async (key) => {
    const store = await openS3(`${url}/odd-${randomUUID()}`, 20_000);
    await expect(roundTrip(store, key)).resolves.toBe(key);
    await store.close();
  });

  it('honours the condition of a put that replaces something, and says so', async () => {
    const store = await openS3(`${url}/replaced-${randomUUID()}`, 20_000);
    const put = async (text: string, precondition: Precondition): Promise<Precondition> => {
      const outcome = await store.put('r.dat', Buffer.from(text), { meta: newMeta(), precondition });
      if (outcome.kind !== 'stored') throw new Error(outcome.kind);
      return exactly(outcome);
    };
    const first = await put('v1', ABSENT);
    await put('v2', first);
    expect(await store.replacesAtomically()).toBe(true);
    await expect(put('v3', first)).rejects.toThrow('replaced-meanwhile');
    await store.delete(await listOf(store, ''));
    await store.close();
  });

  it('sweeps the parts of a put that never ended', async () => {
    const store = await openS3(`${url}/sweep-${randomUUID()}`, 20_000);
    const body = (async function* parts() {
      for (let part = 0; part < 3; part += 1) yield Buffer.alloc(5 * 2 ** 20);
      // What a second machine would do that thinks the first one dead.
      await store.sweep('', () => true);
      yield Buffer.alloc(1);
    })();
    await expect(store.put('never.chk', body, { meta: newMeta() })).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringContaining('the upload is gone'),
    });
    expect(await listOf(store, '')).toEqual([]);
    await store.close();
  });
});
