// What people read when the S3 store cannot do its work, and that credentials are read again.
import fs from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../../../src/store/contract/store.ts';
import { startS3Server, type S3Server } from '../../s3-server/server.ts';
import { kindOf, newMeta, textOf } from '../contract.ts';
import { openS3, setEnv } from './setup.ts';

const OLD = { accessKeyId: 'AKIAOLD', secretAccessKey: 'old-secret', sessionToken: 'old-token' };
const NEW = { accessKeyId: 'AKIANEW', secretAccessKey: 'new-secret', sessionToken: 'new-token' };

let server: S3Server;
let store: Store | undefined;
let restore: () => void;
let dir: string;
beforeEach(async () => {
  server = await startS3Server();
  dir = fs.mkdtempSync(join(os.tmpdir(), 's3-errors-'));
});
afterEach(async () => {
  await store?.close();
  restore();
  await server.stop();
  fs.rmSync(dir, { recursive: true });
});

async function open(
  env: Readonly<Record<string, string>>,
  url = 's3://lab/run7',
  budgetMs = 0,
): Promise<Store> {
  restore = setEnv(env);
  store = await openS3(url, budgetMs);
  return store;
}

function put(into: Store): Promise<string> {
  return kindOf(into.put('r.dat', Buffer.from('x'), { meta: newMeta() }));
}

function writeProfile({ accessKeyId, secretAccessKey, sessionToken }: typeof OLD): void {
  const lines = [
    `aws_access_key_id=${accessKeyId}`,
    `aws_secret_access_key=${secretAccessKey}`,
    `aws_session_token=${sessionToken}`,
  ];
  fs.writeFileSync(`${dir}/credentials`, ['[sim]', ...lines, ''].join('\n'));
}

describe('the S3 store says', () => {
  it('that these credentials do not allow it', async () => {
    const denied = await open({
      ...server.env,
      AWS_ACCESS_KEY_ID: 'AKIADENIED',
      AWS_SECRET_ACCESS_KEY: 'denied-secret',
    });
    await expect(put(denied)).rejects.toMatchObject({
      kind: 'denied',
      message: 'PutObject s3://lab/run7/r.dat: access denied (http 403, AccessDenied, 1 try)',
      hint: 'check that these credentials may PutObject under run7/',
    });
    await expect(denied.head('r.dat')).rejects.toMatchObject({
      kind: 'denied',
      message: expect.stringMatching(
        /^HeadObject s3:\/\/lab\/run7\/r\.dat: access denied \(http 403, .*1 try\)$/,
      ),
    });
    await expect(denied.delete(['r.dat'])).rejects.toMatchObject({ kind: 'denied' });
  });

  it('that the secret does not fit, without the secret', async () => {
    const wrong = await open({ ...server.env, AWS_SECRET_ACCESS_KEY: 'not-the-secret' });
    const error: unknown = await put(wrong).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      kind: 'denied',
      message:
        'PutObject s3://lab/run7/r.dat: the secret key does not fit (http 403, SignatureDoesNotMatch, 1 try)',
      hint: expect.stringContaining('AWS_SECRET_ACCESS_KEY'),
    });
    expect(JSON.stringify(error)).not.toContain('not-the-secret');
  });

  it('that the access key is unknown', async () => {
    const unknown = await open({ ...server.env, AWS_ACCESS_KEY_ID: 'AKIANOBODY' });
    await expect(put(unknown)).rejects.toThrow('unknown access key (http 403, InvalidAccessKeyId, 1 try)');
  });

  it('that no header can have the credentials', async () => {
    const odd = await open({ ...server.env, AWS_SESSION_TOKEN: 'tok€n' });
    await expect(put(odd)).rejects.toMatchObject({
      kind: 'denied',
      message: expect.stringContaining('a character that no header can have (ERR_INVALID_CHAR, 1 try)'),
      hint: expect.stringContaining('printable ASCII'),
    });
  });

  it('that there are no credentials', async () => {
    const { AWS_ENDPOINT_URL_S3, AWS_REGION } = server.env;
    const none = await open(
      { AWS_ENDPOINT_URL_S3: AWS_ENDPOINT_URL_S3 ?? '', AWS_REGION: AWS_REGION ?? '' },
      undefined,
      20_000,
    );
    await expect(put(none)).rejects.toMatchObject({
      kind: 'denied',
      message: expect.stringContaining('no credentials found'),
      hint: expect.stringContaining('AWS_PROFILE'),
    });
  });

  it('that there is no such bucket', async () => {
    const missing = await open(server.env, 's3://nowhere/run7', 20_000);
    await expect(put(missing)).rejects.toMatchObject({
      kind: 'missing',
      message: 'PutObject s3://nowhere/run7/r.dat: no such bucket (http 404, NoSuchBucket, 1 try)',
    });
    await expect(missing.get('r.dat')).rejects.toMatchObject({ kind: 'missing' });
    await expect(missing.delete(['r.dat'])).rejects.toMatchObject({ kind: 'missing' });
  });

  it.each([
    ['127.0.0.1:1', 'ECONNREFUSED'],
    ['no-such-host.invalid', 'ENOTFOUND|EAI_AGAIN'],
  ])('which endpoint it cannot reach (%s)', async (host, code) => {
    const away = await open({ ...server.env, AWS_ENDPOINT_URL_S3: `http://${host}` });
    const outcome = put(away);
    await expect(outcome).rejects.toMatchObject({
      kind: 'transient',
      hint: expect.stringContaining('AWS_ENDPOINT_URL'),
    });
    await expect(outcome).rejects.toThrow(
      new RegExp(`^PutObject s3://lab/run7/r\\.dat: cannot reach http://${host} \\((${code}), 1 try\\)$`),
    );
  });

  it('that the clock is wrong', async () => {
    const skewed = await open(server.env, undefined, 20_000);
    server.fault = () => ({ kind: 'answer', status: 403, code: 'RequestTimeTooSkewed' });
    await expect(put(skewed)).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringContaining('the clocks of this machine and of the server differ'),
      hint: expect.stringContaining('15 minutes'),
    });
  });

  it.each([
    ['a code', 'RequestTimeTooSkewed'],
    ['nothing but the status, as to HEAD,', undefined],
  ])('nothing, if only the clock is wrong: the server has sent the time (with %s)', async (_, code) => {
    const apartMs = 10 * 60_000;
    const apart = await open(server.env, undefined, 20_000);
    server.fault = ({ headers }) => {
      const [, date = '', time = ''] = /^(\d{8})T(\d{6})Z$/.exec(String(headers['x-amz-date'])) ?? [];
      const iso = `${date.replace(/(....)(..)/, '$1-$2-')}T${time.replaceAll(/(..)(?=.)/g, '$1:')}Z`;
      const nowMs = Date.now() + apartMs;
      if (Math.abs(Date.parse(iso) - nowMs) < 60_000) return undefined;
      const said = {
        headers: { date: new Date(nowMs).toUTCString() },
        ...(code === undefined ? { body: '' } : { code }),
      };
      return { kind: 'answer', status: 403, ...said };
    };
    expect(await Promise.all([put(apart), put(apart), put(apart)])).toEqual(['stored', 'stored', 'stored']);
  });

  it.each([
    [301, 'PermanentRedirect'],
    [400, 'AuthorizationHeaderMalformed'],
    [307, ''],
  ])('that the bucket is in another region (%i %s)', async (status, code) => {
    const away = await open(server.env, undefined, 20_000);
    server.fault = () => ({ kind: 'answer', status, ...(code === '' ? { body: '' } : { code }) });
    await expect(put(away)).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringContaining(`the bucket is in another region (http ${status}`),
      hint: 'set AWS_REGION to the region of the bucket',
    });
  });

  it('status, operation, bucket and key if the server sends no message', async () => {
    const mute = await open(server.env);
    server.fault = () => ({ kind: 'answer', status: 400, body: '' });
    await expect(put(mute)).rejects.toThrow(
      /^PutObject s3:\/\/lab\/run7\/r\.dat: the request was refused \(http 400, 2 tries\)$/,
    );
  });

  it('that the store is full', async () => {
    const full = await open(server.env, undefined, 20_000);
    server.fault = () => ({ kind: 'answer', status: 403, code: 'QuotaExceeded' });
    await expect(put(full)).rejects.toMatchObject({ kind: 'full' });
  });

  it('that the URL has no bucket', async () => {
    restore = setEnv(server.env);
    await expect(openS3('s3://')).rejects.toMatchObject({
      kind: 'refused',
      hint: 'write s3://bucket/prefix',
    });
  });
});

describe('expired credentials', () => {
  it('are read again from the profile, once, and the request continues', async () => {
    server.credentials = [{ ...OLD, expired: true }, NEW];
    writeProfile(OLD);
    const profile = { AWS_PROFILE: 'sim', AWS_SHARED_CREDENTIALS_FILE: `${dir}/credentials` };
    const renewed = await open({ AWS_ENDPOINT_URL_S3: server.url, ...profile });
    await expect(put(renewed)).rejects.toMatchObject({
      kind: 'expired',
      message: 'PutObject s3://lab/run7/r.dat: credentials expired (http 400, ExpiredToken, 2 tries)',
      hint: expect.stringContaining('renew'),
    });
    writeProfile(NEW);
    expect(await put(renewed)).toBe('stored');
    server.credentials = [{ ...NEW, expired: true }, OLD];
    writeProfile(OLD);
    expect(await textOf((await renewed.get('r.dat'))?.body)).toBe('x');
  });

  it('are noticed although the answer to HEAD has no body', async () => {
    server.credentials = [OLD];
    writeProfile(OLD);
    const profile = { AWS_PROFILE: 'sim', AWS_SHARED_CREDENTIALS_FILE: `${dir}/credentials` };
    const renewed = await open({ AWS_ENDPOINT_URL_S3: server.url, ...profile });
    await put(renewed);
    server.credentials = [{ ...OLD, expired: true }, NEW];
    writeProfile(NEW);
    expect((await renewed.head('r.dat'))?.sizeBytes).toBe(1);
  });
});
