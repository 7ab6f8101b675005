// What is signed, checked by a server that computes each signature again from what it got.
import { describe, expect, it } from 'vitest';
import { keySigner } from '../../../src/store/s3/bucket.ts';
import type { Store } from '../../../src/store/contract/store.ts';
import type { S3Server } from '../../s3-server/server.ts';
import { kindOf, newMeta } from '../contract.ts';
import { ODD_KEYS, roundTrip } from './odd-keys.ts';
import { eachOnItsServer, openS3, setEnv } from './setup.ts';

describe('the S3 store signs', () => {
  let server: S3Server;
  let store: Store;
  eachOnItsServer(0, (started, opened) => {
    server = started;
    store = opened;
  });

  it.each(ODD_KEYS)('requests for the key %s', async (key) => {
    await expect(roundTrip(store, key)).resolves.toBe(key);
  });

  it('values of metadata with spaces in a row', async () => {
    await store.put('r.dat', Buffer.from('x'), { meta: { ...newMeta(), name: 'a  b   c' } });
    expect((await store.head('r.dat'))?.meta['name']).toMatch(/^a +b +c$/);
  });

  it('the session token', async () => {
    server.credentials = [
      { accessKeyId: 'AKIATEST', secretAccessKey: 'test-secret', sessionToken: 'to/k+n==' },
    ];
    await expect(store.put('r.dat', Buffer.from('x'), { meta: newMeta() })).rejects.toMatchObject({
      kind: 'denied',
      hint: 'check AWS_SESSION_TOKEN',
    });
    const restore = setEnv({ ...server.env, AWS_SESSION_TOKEN: 'to/k+n==' });
    const withToken = await openS3('s3://lab/run7', 0);
    expect(await kindOf(withToken.put('r.dat', Buffer.from('x'), { meta: newMeta() }))).toBe('stored');
    const signed = /SignedHeaders=([^,]*)/.exec(server.served.at(-1)?.headers.authorization ?? '')?.[1];
    expect(signed?.split(';')).toEqual(
      expect.arrayContaining(['host', 'x-amz-security-token', 'x-amz-meta-push']),
    );
    await withToken.close();
    restore();
  });

  it('by the server’s time while the server says that ours is wrong', async () => {
    const now = new Date();
    const hourLater = new Date(now.getTime() + 3_600_000);
    const dates = [hourLater, now];
    server.fault = ({ nth }) => {
      const date = dates[nth - 1]?.toUTCString();
      return { kind: 'answer', status: 403, body: '', ...(date === undefined ? {} : { headers: { date } }) };
    };
    for (let nth = 1; nth <= 3; nth += 1)
      await expect(store.head('r.dat')).rejects.toMatchObject({ kind: 'denied' });
    const signedAt = server.served.map(({ headers }) => timeOf(String(headers['x-amz-date'])));
    expect(signedAt.map((at) => at - now.getTime() > 1_800_000)).toEqual([false, true, false, false]); // The first one was tried again at once.
  });

  it.each(['Sat, 13 Sep 275760 00:00:00 GMT', 'Thu, 01 Jan 1970 00:00:00 GMT', 'soon'])(
    'by our own time if the server says that it is %s',
    async (date) => {
      server.fault = ({ nth }) =>
        nth === 1 ? { kind: 'answer', status: 403, body: '', headers: { date } } : undefined;
      await expect(store.head('r.dat')).rejects.toMatchObject({ kind: 'denied' });
      expect(await store.head('r.dat')).toBeUndefined();
    },
  );

  it('its own name, in a header that no signature covers', async () => {
    await store.head('r.dat');
    const { 'user-agent': agent, authorization } = server.served[0]?.headers ?? {};
    expect(agent).toMatch(/^capture\/\S+ node\/\d+\.\d+\.\d+$/);
    expect(authorization).not.toContain('user-agent');
  });
});

describe('a signature', () => {
  const KEYS = {
    accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
    secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  };
  const AT = new Date('2013-05-24T00:00:00Z');
  const GET = { method: 'GET', protocol: 'https:', hostname: 'h', path: '/', query: {}, headers: {} };

  // https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html, "Examples"
  it.each([
    [
      'an object read in part',
      { ...GET, path: '/test.txt', headers: { range: 'bytes=0-9' } },
      'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
    ],
    [
      'a query without a value',
      { ...GET, query: { lifecycle: '' } },
      'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
    ],
    [
      'a listing',
      { ...GET, query: { 'max-keys': '2', prefix: 'J' } },
      '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
    ],
  ])('is that of the documentation for %s', async (_, request, expected) => {
    const signer = keySigner({ region: 'us-east-1', service: 's3' }, async () => KEYS);
    const asked = { ...request, headers: { host: 'examplebucket.s3.amazonaws.com', ...request.headers } };
    const { headers } = await signer.sign(asked, { signingDate: AT, signal: undefined });
    expect(headers['authorization']).toContain(`Signature=${expected}`);
  });

  it('changes with the keys, and with the day', async () => {
    const asked = { ...GET, headers: { host: 'h' } };
    const others = { ...KEYS, secretAccessKey: 'another' };
    let keys = KEYS;
    const signer = keySigner({ region: 'us-east-1', service: 's3' }, async () => keys);
    for (const [now, date] of [
      [KEYS, AT],
      [KEYS, new Date('2013-05-25T00:00:00Z')],
      [others, new Date('2013-05-25T00:00:00Z')],
      [KEYS, AT],
    ] as const) {
      keys = now;
      const anew = keySigner({ region: 'us-east-1', service: 's3' }, async () => now);
      const signed = await signer.sign(asked, { signingDate: date, signal: undefined });
      expect(signed).toEqual(await anew.sign(asked, { signingDate: date, signal: undefined }));
    }
  });
});

/** `20260131T235959Z` */
function timeOf(text: string): number {
  return Date.parse(text.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
}
