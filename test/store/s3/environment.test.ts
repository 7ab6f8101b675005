// Region, server and keys, as the AWS environment and files say it. Where a bucket is, Amazon's own client tells.
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import { join } from 'node:path';
import { HeadObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { locationOf } from '../../../src/store/s3/environment.ts';
import type { Store } from '../../../src/store/contract/store.ts';
import { startS3Server, type S3Server } from '../../s3-server/server.ts';
import { kindOf, newMeta } from '../contract.ts';
import { openS3, setEnv } from './setup.ts';

let dir: string;
let restore: () => void = () => undefined;
beforeEach(() => {
  dir = fs.mkdtempSync(join(os.tmpdir(), 's3-environment-'));
});
afterEach(() => {
  restore();
  fs.rmSync(dir, { recursive: true });
});

interface Asked {
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Where Amazon's client would ask for the key `k` of a bucket, and for which region it signs. */
async function askedBySdk(bucket: string, pathStyle: boolean, isAccelerated = false): Promise<string> {
  process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] = 'true';
  let asked: Asked | undefined;
  const requestHandler = {
    handle: async (request: Asked) => {
      asked = request;
      throw new Error('seen');
    },
  };
  const client = new S3Client({
    forcePathStyle: pathStyle,
    useAccelerateEndpoint: isAccelerated,
    useArnRegion: true,
    disableS3ExpressSessionAuth: true,
    requestHandler: requestHandler as never,
    credentials: { accessKeyId: 'k', secretAccessKey: 's' },
    maxAttempts: 1,
  });
  await client.send(new HeadObjectCommand({ Bucket: bucket, Key: 'k' })).catch(() => undefined);
  if (asked === undefined) throw new Error('the SDK sends nothing');
  const { protocol, hostname, port, path, headers } = asked;
  const region = /Credential=[^/]+\/\d+\/([^/]+)/.exec(headers['authorization'] ?? '')?.[1];
  return `${region} ${protocol}//${hostname}${port === undefined ? '' : `:${port}`}${path}`;
}

async function askedByUs(bucket: string, pathStyle: boolean): Promise<string> {
  const { region, origin, path } = await locationOf(bucket, pathStyle);
  return `${region} ${origin}${path}/k`;
}

describe('a bucket is where the SDK finds it', () => {
  const at = (url: string): Readonly<Record<string, string>> => ({
    AWS_REGION: 'eu-west-1',
    AWS_ENDPOINT_URL_S3: url,
  });
  const FIPS = { AWS_USE_FIPS_ENDPOINT: 'true' };
  const DUAL = { AWS_USE_DUALSTACK_ENDPOINT: 'true' };
  const BUCKETS = ['lab', 'lab.for.mine'];

  it.each<Readonly<Record<string, string>>>([
    { AWS_REGION: 'us-east-1' },
    { AWS_REGION: 'eu-central-1' },
    { AWS_REGION: 'us-gov-west-1' },
    { AWS_REGION: 'cn-north-1' },
    { AWS_REGION: 'eusc-de-east-1' },
    { AWS_REGION: 'us-iso-east-1' },
    { AWS_REGION: 'us-isob-east-1' },
    { AWS_REGION: 'eu-isoe-west-1' },
    { AWS_REGION: 'us-isof-south-1' },
    { AWS_REGION: 'us-west-2', ...FIPS },
    { AWS_REGION: 'fips-us-west-2' },
    { AWS_REGION: 'us-west-2', ...DUAL },
    { AWS_REGION: 'us-west-2', ...FIPS, ...DUAL },
    at('http://127.0.0.1:9000'),
    at('http://[::1]:9000'),
    at('http://minio:9000'),
    at('https://minio.lab.example'),
    at('https://minio.lab.example:443/s3'),
    {
      AWS_REGION: 'eu-west-1',
      AWS_ENDPOINT_URL: 'https://all.example',
      AWS_ENDPOINT_URL_S3: 'https://s3.example',
    },
    { AWS_REGION: 'eu-west-1', AWS_ENDPOINT_URL: 'https://all.example' },
    {
      AWS_REGION: 'eu-west-1',
      AWS_ENDPOINT_URL: 'https://all.example',
      AWS_IGNORE_CONFIGURED_ENDPOINT_URLS: 'true',
    },
  ])('with %j', async (env) => {
    restore = setEnv(env);
    for (const bucket of BUCKETS) {
      // The SDK puts dots before an address, too, which is no name of a host.
      if (bucket.includes('.') && env['AWS_ENDPOINT_URL_S3']?.startsWith('http:')) continue;
      for (const pathStyle of [false, true]) {
        expect(await askedByUs(bucket, pathStyle)).toBe(await askedBySdk(bucket, pathStyle));
      }
    }
  });

  it('with a profile that names region and server', async () => {
    const config = [
      '[profile lab]',
      'region = eu-north-1',
      'services = ours',
      '[services ours]',
      's3 =',
      '  endpoint_url = https://s3.lab.example',
      '[profile other]',
      'region = ap-south-1',
      'endpoint_url = https://other.example',
      '',
    ];
    fs.writeFileSync(`${dir}/config`, config.join('\n'));
    for (const AWS_PROFILE of ['lab', 'other']) {
      restore = setEnv({ AWS_CONFIG_FILE: `${dir}/config`, AWS_PROFILE });
      expect(await askedByUs('data', false)).toBe(await askedBySdk('data', false));
      restore();
    }
    restore = setEnv({ AWS_CONFIG_FILE: `${dir}/config`, AWS_PROFILE: 'lab' });
    expect((await locationOf('data', false)).origin).toBe('https://data.s3.lab.example');
  });

  it.each([
    ['lab--usw2-az1--x-s3', 's3express'],
    ['lab--usw2-az1--xa-s3', 's3express'],
    ['arn:aws:s3:eu-west-1:123456789012:accesspoint/lab', 's3'],
  ])('if it is %s, signed for %s', async (bucket, service) => {
    for (const env of [{}, FIPS, DUAL]) {
      restore = setEnv({ AWS_REGION: 'us-west-2', ...env });
      expect(await askedByUs(bucket, false)).toBe(await askedBySdk(bucket, false));
      expect((await locationOf(bucket, false)).service).toBe(service);
      restore();
    }
  });

  it('with transfer acceleration, if the profile requests it', async () => {
    fs.writeFileSync(
      `${dir}/config`,
      '[default]\nregion = us-west-2\ns3 =\n  use_accelerate_endpoint = true\n',
    );
    restore = setEnv({ AWS_CONFIG_FILE: `${dir}/config` });
    expect(await askedByUs('lab', false)).toBe(await askedBySdk('lab', false, true));
    expect((await locationOf('lab', false)).origin).toBe('https://lab.s3-accelerate.amazonaws.com');
    await expect(locationOf('lab.for.mine', false)).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringContaining('S3 Accelerate'),
      hint: expect.stringContaining('use_accelerate_endpoint'),
    });
  });

  it('is in us-east-1 if nothing names a region, which other servers ignore', async () => {
    restore = setEnv({ AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:9000' });
    expect(await locationOf('lab', true)).toMatchObject({ region: 'us-east-1', isAws: false });
  });

  it('is recognised as Amazon’s by its name', async () => {
    restore = setEnv({ AWS_REGION: 'eu-west-1' });
    expect((await locationOf('lab', false)).isAws).toBe(true);
    restore();
    restore = setEnv(at('https://bucket.vpce-1a2b.s3.eu-west-1.vpce.amazonaws.com'));
    expect((await locationOf('lab', false)).isAws).toBe(true);
    restore();
    restore = setEnv(at('https://amazonaws.com.example'));
    expect((await locationOf('lab', false)).isAws).toBe(false);
  });

  it.each([
    ['minio:9000', {}, /AWS_ENDPOINT_URL is no address of a server/],
    ['not an address', {}, /AWS_ENDPOINT_URL is no address of a server/],
    ['https://minio', FIPS, /AWS_USE_FIPS_ENDPOINT and AWS_ENDPOINT_URL cannot both be set/],
    ['https://minio', DUAL, /AWS_USE_DUALSTACK_ENDPOINT and AWS_ENDPOINT_URL cannot both be set/],
  ])('or the reason why it has no place is reported: %s %j', async (url, env, message) => {
    restore = setEnv({ ...at(url), ...env });
    await expect(locationOf('lab', false)).rejects.toMatchObject({ name: 'StoreError', kind: 'refused' });
    await expect(locationOf('lab', false)).rejects.toThrow(message);
  });

  it.each([
    ['AWS_REGION', 'us-east-1\n'],
    ['AWS_ENDPOINT_URL_S3', 'http://127.0.0.1:9/a\nb'],
    ['AWS_ACCESS_KEY_ID', 'k\r'],
    ['AWS_SECRET_ACCESS_KEY', 'my-secret\n'],
    ['AWS_SESSION_TOKEN', 'my-secret\t'],
  ])('or %s is refused for its control character, without its value', async (name, value) => {
    restore = setEnv({ AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:9', [name]: value });
    const error: unknown = await openS3('s3://lab/run7').catch((reason: unknown) => reason);
    expect(error).toMatchObject({ kind: 'refused', message: expect.stringContaining(name) as string });
    expect(String(error)).not.toContain('my-secret');
  });
});

describe('keys', () => {
  const FIRST = { accessKeyId: 'AKIAFIRST', secretAccessKey: 'first-secret', sessionToken: 'first-token' };
  const SECOND = {
    accessKeyId: 'AKIASECOND',
    secretAccessKey: 'second-secret',
    sessionToken: 'second-token',
  };
  let server: S3Server;
  let store: Store;
  /** What a container's endpoint for credentials gives: a set for each time it is asked. */
  let source: http.Server;
  let asked: number;
  let given: (nth: number) => { readonly keys: typeof FIRST; readonly validMs: number };
  beforeEach(async () => {
    server = await startS3Server();
    asked = 0;
    source = http.createServer((_, response) => {
      asked += 1;
      const { keys, validMs } = given(asked);
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify({
          AccessKeyId: keys.accessKeyId,
          SecretAccessKey: keys.secretAccessKey,
          Token: keys.sessionToken,
          Expiration: new Date(new Date().getTime() + validMs).toISOString(),
        }),
      );
    });
    source.listen(0, '127.0.0.1');
    await once(source, 'listening');
    restore = setEnv({
      AWS_ENDPOINT_URL_S3: server.url,
      AWS_REGION: 'us-east-1',
      AWS_CONTAINER_CREDENTIALS_FULL_URI: `http://127.0.0.1:${(source.address() as AddressInfo).port}/keys`,
    });
    store = await openS3('s3://lab/run7', 0);
    return async () => {
      await store.close();
      source.closeAllConnections();
      source.close();
      await server.stop();
    };
  });
  const putMany = (): Promise<readonly string[]> =>
    Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        kindOf(store.put(`r.${at}`, Buffer.from('x'), { meta: newMeta() })),
      ),
    );
  const signers = (): readonly string[] => [
    ...new Set(
      server.served.map(({ headers }) => /Credential=([^/]+)/.exec(headers.authorization ?? '')?.[1] ?? ''),
    ),
  ];

  it('are requested once for many requests, and again, once, before they expire', async () => {
    server.credentials = [FIRST, SECOND];
    given = (nth) =>
      nth === 1 ? { keys: FIRST, validMs: 2 * 60_000 } : { keys: SECOND, validMs: 3_600_000 };
    await putMany();
    // While these are sent with the old ones, which are valid yet, the new ones come.
    await putMany();
    await expect.poll(() => asked).toBe(2);
    await putMany();
    await expect
      .poll(async () => {
        await putMany();
        return signers();
      })
      .toEqual(['AKIAFIRST', 'AKIASECOND']);
    expect(asked).toBe(2);
  });

  it('that the server calls expired are requested again, once for all requests that learn of it', async () => {
    server.credentials = [{ ...FIRST, expired: true }, SECOND];
    given = (nth) => ({ keys: nth === 1 ? FIRST : SECOND, validMs: 3_600_000 });
    expect(new Set(await putMany())).toEqual(new Set(['stored']));
    expect(asked).toBe(2);
  });

  it('in variables come first, unless a profile is named', async () => {
    server.credentials = [FIRST, SECOND];
    given = () => ({ keys: FIRST, validMs: 3_600_000 });
    const variables = {
      AWS_ENDPOINT_URL_S3: server.url,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: FIRST.accessKeyId,
      AWS_SECRET_ACCESS_KEY: FIRST.secretAccessKey,
      AWS_SESSION_TOKEN: FIRST.sessionToken,
    };
    const lines = [
      '[lab]',
      `aws_access_key_id = ${SECOND.accessKeyId}`,
      `aws_secret_access_key = ${SECOND.secretAccessKey}`,
      `aws_session_token = ${SECOND.sessionToken}`,
      '',
    ];
    fs.writeFileSync(`${dir}/credentials`, lines.join('\n'));
    const profile = { AWS_PROFILE: 'lab', AWS_SHARED_CREDENTIALS_FILE: `${dir}/credentials` };
    for (const env of [variables, { ...variables, ...profile }]) {
      restore();
      restore = setEnv(env);
      const opened = await openS3('s3://lab/run7', 0);
      await opened.put('r.dat', Buffer.from('x'), { meta: newMeta() });
      await opened.close();
    }
    expect(signers()).toEqual(['AKIAFIRST', 'AKIASECOND']);
    expect(asked).toBe(0);
  });

  it('of a role are requested from STS through the proxy', async () => {
    const sts: string[] = [];
    const proxy = http.createServer((request, response) => {
      sts.push(`${request.method} ${request.url}`);
      const { accessKeyId, secretAccessKey, sessionToken } = SECOND;
      const keys =
        `<AccessKeyId>${accessKeyId}</AccessKeyId><SecretAccessKey>${secretAccessKey}</SecretAccessKey>` +
        `<SessionToken>${sessionToken}</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>`;
      request.resume();
      response.setHeader('content-type', 'text/xml');
      response.end(
        `<AssumeRoleResponse><AssumeRoleResult><Credentials>${keys}</Credentials></AssumeRoleResult></AssumeRoleResponse>`,
      );
    });
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    server.credentials = [SECOND];
    fs.writeFileSync(
      `${dir}/config`,
      '[profile lab]\nrole_arn = arn:aws:iam::123456789012:role/lab\nsource_profile = base\n[profile base]\naws_access_key_id = k\naws_secret_access_key = s\n',
    );
    restore();
    restore = setEnv({
      AWS_ENDPOINT_URL_S3: server.url,
      AWS_ENDPOINT_URL_STS: 'http://sts.example',
      AWS_REGION: 'us-east-1',
      AWS_PROFILE: 'lab',
      AWS_CONFIG_FILE: `${dir}/config`,
      HTTP_PROXY: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
      NO_PROXY: '127.0.0.1',
    });
    const opened = await openS3('s3://lab/run7', 0);
    expect(await kindOf(opened.put('r.dat', Buffer.from('x'), { meta: newMeta() }))).toBe('stored');
    expect(sts).toEqual(['POST http://sts.example:80/']);
    await opened.close();
    proxy.closeAllConnections();
    proxy.close();
  });
});
