// What the driver sends for odd keys, and how botocore signs the same. To record anew what botocore.test.ts compares with,
// on a machine that has python3-botocore: CAPTURE_RECORD=1 npx vitest run test/store/s3/botocore.test.ts
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { vi } from 'vitest';
import { type Bucket, openBucket } from '../../../../src/store/s3/bucket.ts';
import { copyObject } from '../../../../src/store/s3/copy.ts';
import { sweepUploads } from '../../../../src/store/s3/multipart.ts';
import { deleteObjects, getObject, headObject, listObjects } from '../../../../src/store/s3/objects.ts';
import { putObject } from '../../../../src/store/s3/put.ts';
import { testDir } from '../../../support/work-dir.ts';
import { setEnv } from '../setup.ts';
import { KEYS } from './keys.ts';

const AT = new Date('2026-01-31T23:59:59Z');
const HOST = 's3.test:9000';
const REGION = 'eu-central-1';
const ACCOUNTS = {
  plain: { accessKeyId: 'AKIATEST', secretAccessKey: 'test/secret+1' },
  session: { accessKeyId: 'ASIATEST', secretAccessKey: 'test/secret+2', sessionToken: 'to/k+n=='.repeat(40) },
} as const;

export type Account = keyof typeof ACCOUNTS;

/** One that was sent. */
export interface Sent {
  /** `put_object`, as botocore calls it; `sts` is one of the SDK. */
  readonly operation: string;
  /** Botocore's, for the same. */
  readonly params: Readonly<Record<string, unknown>>;
  readonly keys: Account;
  readonly method: string;
  /** As sent. */
  readonly url: string;
  /** Those that are signed. */
  readonly headers: Readonly<Record<string, string>>;
  /** base64 */
  readonly body: string;
  readonly signature: string;
}

/** Of each key all requests that the driver knows; every other key with a session token. */
export async function sentByDriver(): Promise<readonly Sent[]> {
  const all: Sent[] = [];
  for (const [at, key] of KEYS.entries())
    all.push(...(await sentFor(key, at % 2 === 0 ? 'plain' : 'session')));
  return all;
}

/** What the SDK asks STS for, to get the keys of a role: it signs that itself. */
export async function sentBySdk(account: Account): Promise<readonly Sent[]> {
  const sent: Sent[] = [];
  const recorder = await openRecorder(async (request) => {
    const url = `${recorder.url}${request.url}`;
    sent.push(await sentOf(request, { operation: 'sts', params: {}, keys: account, url }));
    return { headers: { 'content-type': 'text/xml' }, body: ASSUMED };
  });
  const dir = testDir();
  const { accessKeyId, secretAccessKey, ...rest } = ACCOUNTS[account];
  const config = path.join(dir.path, 'config');
  fs.writeFileSync(
    config,
    [
      '[profile lab]',
      'role_arn = arn:aws:iam::123456789012:role/lab with+odd=,.@-_~name',
      'source_profile = base',
      '[profile base]',
      `aws_access_key_id = ${accessKeyId}`,
      `aws_secret_access_key = ${secretAccessKey}`,
      ...('sessionToken' in rest ? [`aws_session_token = ${rest.sessionToken}`] : []),
    ].join('\n'),
  );
  const restore = setEnv({
    AWS_REGION: REGION,
    AWS_PROFILE: 'lab',
    AWS_CONFIG_FILE: config,
    AWS_ENDPOINT_URL_STS: recorder.url,
  });
  vi.useFakeTimers({ toFake: ['Date'], now: AT });
  const opened = await openBucket({ url: 's3://lab/run7', flags: [], unfenced: false }, 0);
  try {
    await opened.keys();
  } finally {
    opened.close();
    vi.useRealTimers();
    restore();
    dir.remove();
    await recorder.close();
  }
  return sent;
}

const ASSUMED =
  '<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>k</AccessKeyId><SecretAccessKey>s</SecretAccessKey>' +
  '<SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult>' +
  '</AssumeRoleResponse>';

async function sentFor(key: string, account: Account): Promise<readonly Sent[]> {
  const sent: Sent[] = [];
  const recorder = await openRecorder(async (request) => {
    const whole = { Bucket: 'lab', Key: `run7/${key}` };
    sent.push(await sentOf(request, { keys: account, url: request.url ?? '', ...askedBy(request, whole) }));
    return answerTo(request, whole.Key);
  });
  const restore = setEnv({ ...environmentOf(account), AWS_ENDPOINT_URL_S3: recorder.url });
  vi.useFakeTimers({ toFake: ['Date'], now: AT });
  const opened = await openBucket({ url: 's3://lab/run7', flags: ['path-style'], unfenced: false }, 0);
  try {
    // Sent to us, and signed for a host that is always the same.
    await askAll({ ...opened, location: { ...opened.location, authority: HOST } }, key);
  } finally {
    opened.close();
    vi.useRealTimers();
    restore();
    await recorder.close();
  }
  // Two parts leave at once.
  return sent.toSorted((a, b) => compare(a.operation, b.operation) || compare(a.url, b.url));
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

async function askAll(bucket: Bucket, key: string): Promise<void> {
  const meta = { push: 'p1', spaced: 'a  b   c' };
  await putObject(bucket, key, Buffer.from('bytes'), { meta, precondition: { kind: 'absent' } });
  await putObject(bucket, key, chunks(['one', 'two']), { meta });
  const broken = putObject(bucket, key, chunks(['one', 'two', new Error('torn')]), { meta });
  await broken.catch((error: Error) => {
    if (error.message !== 'torn') throw error;
  });
  await headObject(bucket, key);
  for await (const _ of (await getObject(bucket, key, { range: { first: 1, last: 3 } }))?.body ?? []);
  for await (const _ of listObjects(bucket, key, undefined));
  await copyObject(bucket, { from: key, to: key });
  await copyObject(bucket, { from: key, to: key }, { singleBytes: 1, partBytes: 3 });
  await sweepUploads(bucket, key, async () => true);
  await deleteObjects(bucket, [key]);
}

async function* chunks(parts: readonly (string | Error)[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) {
    if (typeof part !== 'string') throw part;
    yield Buffer.from(part);
  }
}

type Whole = Readonly<Record<'Bucket' | 'Key', string>>;

/** Told by what a request is, and never by how its key is escaped. */
function askedBy(request: http.IncomingMessage, whole: Whole): Pick<Sent, 'operation' | 'params'> {
  const query = new URLSearchParams(request.url?.split('?')[1]);
  const isCopy = request.headers['x-amz-copy-source'] !== undefined;
  const upload = { ...whole, UploadId: query.get('uploadId') };
  const part = { ...upload, PartNumber: Number(query.get('partNumber')) };
  const isPart = query.has('partNumber');
  switch (request.method) {
    case 'PUT':
      if (isCopy && isPart) return { operation: 'upload_part_copy', params: { ...part, CopySource: whole } };
      if (isCopy) return { operation: 'copy_object', params: { ...whole, CopySource: whole } };
      return isPart ? { operation: 'upload_part', params: part } : { operation: 'put_object', params: whole };
    case 'POST':
      return query.has('uploads')
        ? { operation: 'create_multipart_upload', params: whole }
        : { operation: 'complete_multipart_upload', params: upload };
    case 'DELETE':
      return query.has('uploadId')
        ? { operation: 'abort_multipart_upload', params: upload }
        : { operation: 'delete_object', params: whole };
    case 'HEAD':
      return { operation: 'head_object', params: whole };
    default: {
      const below = { Bucket: whole.Bucket, Prefix: whole.Key, EncodingType: 'url' };
      if (query.has('list-type')) return { operation: 'list_objects_v2', params: below };
      return query.has('uploads')
        ? { operation: 'list_multipart_uploads', params: below }
        : { operation: 'get_object', params: whole };
    }
  }
}

interface Answer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

function answerTo({ method, url = '', headers }: http.IncomingMessage, key: string): Answer {
  if (method === 'DELETE') return { status: 204 };
  if (method === 'HEAD') return { headers: { etag: '"e"', 'content-length': '6' } };
  if (headers.range !== undefined)
    return { status: 206, headers: { etag: '"e"', 'content-range': 'bytes 1-3/5' }, body: 'yte' };
  const upload = `<Upload><Key>${encodeURIComponent(key)}</Key><UploadId>u/+ =</UploadId></Upload>`;
  const listed = `<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>${url.includes('uploads=') ? upload : ''}`;
  const body = `<Answer><UploadId>u/+ =</UploadId><ETag>"e"</ETag>${listed}</Answer>`;
  return { headers: { etag: '"e"' }, body };
}

async function sentOf(
  request: http.IncomingMessage,
  about: Pick<Sent, 'operation' | 'params' | 'keys' | 'url'>,
): Promise<Sent> {
  const body = (await buffer(request)).toString('base64');
  const { authorization = '', ...headers } = request.headers;
  const [, names = '', signature = ''] = /SignedHeaders=([^,]*), ?Signature=(\w+)/.exec(authorization) ?? [];
  const signed = Object.fromEntries(names.split(';').map((name) => [name, String(headers[name])]));
  return { ...about, method: request.method ?? '', headers: signed, body, signature };
}

async function openRecorder(
  answer: (request: http.IncomingMessage) => Promise<Answer>,
): Promise<{ readonly url: string; close(): Promise<void> }> {
  const server = http.createServer((request, response) => {
    void answer(request).then(({ status = 200, headers = {}, body }) => {
      response.writeHead(status, headers).end(body);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function environmentOf(account: Account): Record<string, string> {
  const { accessKeyId, secretAccessKey, ...rest } = ACCOUNTS[account];
  const token: Record<string, string> =
    'sessionToken' in rest ? { AWS_SESSION_TOKEN: rest.sessionToken } : {};
  const keys = { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey };
  return { AWS_REGION: REGION, ...keys, ...token };
}

/** By the botocore of `python`; throws if that has none. */
export function signedByBotocore(requests: readonly Sent[], python = 'python3'): readonly string[] {
  const at = AT.toISOString().replaceAll(/[-:]|\.\d+/g, '');
  const asked = { at, region: REGION, endpoint: `http://${HOST}`, keys: ACCOUNTS, requests };
  const script = path.join(import.meta.dirname, 'sign.py');
  const options = { input: JSON.stringify(asked), encoding: 'utf8', maxBuffer: 2 ** 26 } as const;
  return JSON.parse(execFileSync(python, [script], options)) as readonly string[];
}
