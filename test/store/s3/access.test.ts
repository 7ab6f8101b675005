// What the driver says of the keys that it is used with: a session, its end, and whether they are read anew.
import fs from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Access } from '../../../src/store/contract/store.ts';
import { openS3, setEnv } from './setup.ts';

const KEYS = { AWS_ACCESS_KEY_ID: 'AKIATEST', AWS_SECRET_ACCESS_KEY: 'test-secret' };
const SERVER = { AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:9', AWS_REGION: 'us-east-1' };

let dir: string;
let restore: () => void = () => undefined;
beforeEach(() => {
  dir = fs.mkdtempSync(join(os.tmpdir(), 's3-access-'));
});
afterEach(() => {
  restore();
  fs.rmSync(dir, { recursive: true });
});

async function accessWith(env: Readonly<Record<string, string>>): Promise<Access | undefined> {
  restore = setEnv({ ...SERVER, ...env });
  const store = await openS3('s3://lab/run7');
  try {
    return await store.access();
  } finally {
    await store.close();
  }
}

/** A profile in files of this test. */
function profile(files: { readonly config?: string; readonly credentials?: string }): Record<string, string> {
  fs.writeFileSync(join(dir, 'config'), `[profile sim]\n${files.config ?? ''}`);
  fs.writeFileSync(
    join(dir, 'credentials'),
    files.credentials === undefined ? '' : `[sim]\n${files.credentials}`,
  );
  return {
    AWS_PROFILE: 'sim',
    AWS_CONFIG_FILE: join(dir, 'config'),
    AWS_SHARED_CREDENTIALS_FILE: join(dir, 'credentials'),
  };
}

it('keys in variables do not expire, and cannot be renewed', async () => {
  expect(await accessWith(KEYS)).toEqual({ expiresMs: undefined, isSession: false, isRenewable: false });
});

it('a session token in variables expires at an unknown time', async () => {
  expect(await accessWith({ ...KEYS, AWS_SESSION_TOKEN: 't' })).toEqual({
    expiresMs: undefined,
    isSession: true,
    isRenewable: false,
  });
});

it('a session token in a file can be renewed there', async () => {
  const credentials = 'aws_access_key_id=A\naws_secret_access_key=s\naws_session_token=t\n';
  expect(await accessWith(profile({ credentials }))).toEqual({
    expiresMs: undefined,
    isSession: true,
    isRenewable: true,
  });
});

it('a provider of keys may report when they expire', async () => {
  const at = new Date(Math.floor(Date.now() / 1000) * 1000 + 3_600_000);
  const given = { Version: 1, AccessKeyId: 'A', SecretAccessKey: 's', SessionToken: 't', Expiration: at };
  fs.writeFileSync(join(dir, 'keys'), JSON.stringify(given));
  expect(await accessWith(profile({ config: `credential_process = cat ${join(dir, 'keys')}\n` }))).toEqual({
    expiresMs: at.getTime(),
    isSession: true,
    isRenewable: true,
  });
});

it('missing keys are reported', async () => {
  await expect(accessWith({})).rejects.toMatchObject({
    name: 'StoreError',
    kind: 'denied',
    message: 'credentials of s3://lab/run7: no credentials found',
    hint: expect.stringContaining('AWS_PROFILE') as string,
  });
});
