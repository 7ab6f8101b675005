// Checks AWS Signature Version 4 in the Authorization header, and that the body is the one that was signed.
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { S3Refusal } from './answers.ts';

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
  /** Those of a session of a directory bucket. */
  readonly isOfDirectory?: boolean;
  /** Every request is answered AccessDenied. */
  readonly denied?: boolean;
  /** Every request is answered ExpiredToken. */
  readonly expired?: boolean;
}

export interface SignedRequest {
  readonly method: string;
  /** As sent: path and query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

const MOST_SKEW_MS = 15 * 60_000;

/** Whose request it is; throws the refusal that S3 would answer. */
export function verify(request: SignedRequest, known: readonly Credentials[]): Credentials {
  const match =
    /^AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
      request.headers.authorization ?? '',
    );
  if (match === null) throw new S3Refusal(403, 'AccessDenied', 'no signature');
  const [, credential = '', signedHeaders = '', signature = ''] = match;
  const [accessKeyId = '', date = '', region = '', service = ''] = credential.split('/');
  const credentials = known.find((one) => one.accessKeyId === accessKeyId);
  if (credentials === undefined) throw new S3Refusal(403, 'InvalidAccessKeyId');
  const time = header(request, 'x-amz-date');
  if (Math.abs(Date.now() - parseTime(time)) > MOST_SKEW_MS) throw new S3Refusal(403, 'RequestTimeTooSkewed');
  const token = credentials.isOfDirectory === true ? 'x-amz-s3session-token' : 'x-amz-security-token';
  if (header(request, token) !== (credentials.sessionToken ?? '')) throw new S3Refusal(400, 'InvalidToken');
  const names = signedHeaders.split(';');
  if (!names.includes('host')) throw new S3Refusal(403, 'AccessDenied', 'the host is not signed');
  const payload = header(request, 'x-amz-content-sha256');
  const toSign = [
    'AWS4-HMAC-SHA256',
    time,
    `${date}/${region}/${service}/aws4_request`,
    sha256(canonicalRequest(request, names, payload)),
  ].join('\n');
  const key = [date, region, service, 'aws4_request'].reduce<string | Buffer>(
    hmac,
    `AWS4${credentials.secretAccessKey}`,
  );
  if (!timingSafeEqual(hmac(key, toSign), Buffer.from(signature, 'hex'))) {
    throw new S3Refusal(403, 'SignatureDoesNotMatch');
  }
  checkBody(request, payload);
  if (credentials.expired === true) throw new S3Refusal(400, 'ExpiredToken');
  if (credentials.denied === true) throw new S3Refusal(403, 'AccessDenied');
  return credentials;
}

/** One hash at least must cover the body: that of the signature, or Content-MD5. */
function checkBody(request: SignedRequest, payload: string): void {
  const md5 = request.headers['content-md5'];
  if (payload.startsWith('STREAMING-') || request.headers['x-amz-trailer'] !== undefined) {
    throw new S3Refusal(400, 'InvalidRequest', 'chunked signatures and trailers are not taken');
  }
  if (payload !== 'UNSIGNED-PAYLOAD' && payload !== sha256(request.body)) {
    throw new S3Refusal(400, 'XAmzContentSHA256Mismatch');
  }
  if (payload === 'UNSIGNED-PAYLOAD' && md5 === undefined && request.body.length > 0) {
    throw new S3Refusal(400, 'InvalidRequest', 'no hash covers the body');
  }
  if (md5 !== undefined && md5 !== createHash('md5').update(request.body).digest('base64')) {
    throw new S3Refusal(400, 'BadDigest');
  }
}

function canonicalRequest(request: SignedRequest, names: readonly string[], payload: string): string {
  const [path = '', query = ''] = request.url.split('?');
  const pairs = query === '' ? [] : query.split('&').map((pair) => (pair.includes('=') ? pair : `${pair}=`));
  const headers = names.map((name) => `${name}:${header(request, name).trim().replaceAll(/ +/g, ' ')}\n`);
  return [request.method, path, pairs.toSorted().join('&'), headers.join(''), names.join(';'), payload].join(
    '\n',
  );
}

function header(request: SignedRequest, name: string): string {
  return [request.headers[name] ?? ''].flat().join(',');
}

/** `20260131T235959Z` */
function parseTime(text: string): number {
  return Date.parse(text.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
}

function sha256(data: string | Buffer): string {
  return createHash('sha256').update(data).digest('hex');
}

function hmac(key: string | Buffer, data: string): Buffer {
  return createHmac('sha256', key).update(data).digest();
}
