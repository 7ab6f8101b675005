// What the driver says of the keys that it is used with: a session, its end, and whether they are read again.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Access } from '../../../src/store/contract/store.ts';
import { errnoOf } from '../../../src/model/errors.ts';
import { credentialChain } from '../../../src/store/s3/credentials.ts';
import { openTransport } from '../../../src/store/http/transport.ts';
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

it('a program for keys may leave a process behind that holds its output', async () => {
  const given = JSON.stringify({ Version: 1, AccessKeyId: 'A', SecretAccessKey: 's' });
  const leaves = `#!/bin/sh\nsetsid sleep 300 &\necho $! >>${dir}/pids\necho '${given}'\n`;
  fs.writeFileSync(join(dir, 'agent'), leaves, { mode: 0o755 });
  try {
    const found = await accessWith(profile({ config: `credential_process = ${join(dir, 'agent')}\n` }));
    expect(found).toEqual({ expiresMs: undefined, isSession: false, isRenewable: true });
  } finally {
    for (const pid of fs.readFileSync(join(dir, 'pids'), 'utf8').trim().split('\n'))
      process.kill(Number(pid), 'SIGKILL');
  }
});

describe('a FIFO that nobody writes', () => {
  const fifo = (): string => {
    execFileSync('mkfifo', [join(dir, 'fifo')]);
    return join(dir, 'fifo');
  };
  const refusal = (setting: string): object => ({
    name: 'StoreError',
    kind: 'refused',
    message: expect.stringContaining(
      `${setting} names ${join(dir, 'fifo')}, which is no regular file`,
    ) as string,
    hint: expect.stringContaining('into a file') as string,
  });

  it.each([
    'AWS_CONFIG_FILE',
    'AWS_SHARED_CREDENTIALS_FILE',
    'AWS_CA_BUNDLE',
    'AWS_WEB_IDENTITY_TOKEN_FILE',
    'AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE',
  ])('is refused as %s, without waiting for it', async (name) => {
    await expect(accessWith({ [name]: fifo(), AWS_ROLE_ARN: 'arn:x' })).rejects.toMatchObject(refusal(name));
  });

  it('is refused as the token of a profile, without waiting for it', async () => {
    const config = `role_arn = arn:x\nweb_identity_token_file = ${fifo()}\n`;
    await expect(accessWith(profile({ config }))).rejects.toMatchObject(refusal('web_identity_token_file'));
  });

  it('is no missing file: /dev/null is an empty profile', async () => {
    const nothing = { AWS_CONFIG_FILE: '/dev/null', AWS_SHARED_CREDENTIALS_FILE: join(dir, 'none') };
    expect(await accessWith({ ...KEYS, ...nothing })).toMatchObject({ isSession: false });
  });
});

it('keys of a program that end at no time are refused: they would never be renewed', async () => {
  const given = { Version: 1, AccessKeyId: 'A', SecretAccessKey: 's', Expiration: 'soon' };
  fs.writeFileSync(join(dir, 'keys'), JSON.stringify(given));
  await expect(
    accessWith(profile({ config: `credential_process = cat ${join(dir, 'keys')}\n` })),
  ).rejects.toMatchObject({
    message: expect.stringContaining(
      'no credentials from their source: their Expiration is no time',
    ) as string,
    hint: expect.stringContaining('credential_process') as string,
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

describe('a program for keys that never answers', () => {
  const pids = (): number[] => {
    const file = join(dir, 'pids');
    return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').filter(Boolean).map(Number) : [];
  };
  const isThere = (pid: number): boolean => {
    try {
      // A program that has ended, but whom nobody has waited for yet, does nothing any more.
      return !/\) [ZX] /.test(fs.readFileSync(`/proc/${pid}/stat`, 'utf8'));
    } catch (error) {
      if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ESRCH') return false;
      throw error;
    }
  };
  /** It has a child of its own, which holds its output open. */
  const hanging = (): Record<string, string> => {
    fs.writeFileSync(
      join(dir, 'hang'),
      `#!/bin/sh\nsleep 300 &\necho $$ $! | tr ' ' '\\n' >> ${dir}/pids\nwait\n`,
      {
        mode: 0o755,
      },
    );
    return profile({ config: `credential_process = ${join(dir, 'hang')}\n` });
  };
  const allGone = (): Promise<void> => vi.waitFor(() => expect(pids().filter(isThere)).toEqual([]), 10_000);

  it('holds no request up whose signal aborts, and ends with the last one', async () => {
    restore = setEnv({ ...SERVER, ...hanging() });
    const store = await openS3('s3://lab/run7');
    const [first, second] = [new AbortController(), new AbortController()];
    try {
      const looks = [first, second].map(({ signal }) => store.head('r.dat', signal));
      const ends = Promise.allSettled(looks);
      await vi.waitFor(() => expect(pids()).toHaveLength(2), 10_000);
      first.abort(new Error('enough'));
      await expect(looks[0]).rejects.toThrow('enough');
      expect(pids().filter(isThere)).toHaveLength(2);
      second.abort(new Error('enough, too'));
      await expect(looks[1]).rejects.toThrow('enough, too');
      await ends;
      await allGone();
    } finally {
      await store.close();
    }
  });

  it('is ended after a time, and asked again by the next request', async () => {
    restore = setEnv({ ...SERVER, ...hanging() });
    const transport = openTransport();
    try {
      const keys = credentialChain(transport, 'us-east-1', undefined, 1000);
      await expect(keys()).rejects.toThrow('no answer in 1 s');
      await allGone();
      await expect(keys()).rejects.toThrow('no answer in 1 s');
      await allGone();
    } finally {
      transport.close();
    }
  });
});
