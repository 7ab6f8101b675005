// Signs the requests of this driver: Signature Version 4 for the one shape that they have, a body in memory whose hash is
// signed, too (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html). Sends nothing.
import { createHash, createHmac, type BinaryLike } from 'node:crypto';
import type { Keys, KeySource } from './credentials.ts';

/** What of a request is signed. */
export interface Signable {
  readonly method: string;
  /** Escaped already, once. */
  readonly path: string;
  /** As in the URL, without `?`: escaped, in the order of names. */
  readonly search: string;
  /** Names are lower case; `host` must be among them. All are signed. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | undefined;
}

/** Returns the headers to send, for a request that leaves at `date`. */
export type Signer = (request: Signable, date: Date) => Promise<Record<string, string>>;

const ALGORITHM = 'AWS4-HMAC-SHA256';
const NO_BODY = sha256('');

/** Signs with the keys that are valid at that moment. */
export function signerFor(region: string, keySource: KeySource): Signer {
  // It holds for a day: four keyed hashes less for each request.
  let known: { readonly secret: string; readonly day: string; readonly key: Buffer } | undefined;
  const keyOf = (secret: string, day: string): Buffer => {
    if (known?.secret === secret && known.day === day) return known.key;
    const key = [day, region, 's3', 'aws4_request'].reduce<Buffer>(hmac, Buffer.from(`AWS4${secret}`));
    known = { secret, day, key };
    return key;
  };
  return async ({ method, path, search, headers, body }, date) => {
    const keys = await keySource();
    const instant = date.toISOString().replaceAll(/[-:]|\.\d+/g, '');
    const day = instant.slice(0, 8);
    const signed = withOwn(headers, keys, instant, body);
    const names = Object.keys(signed).toSorted();
    const lines = names.map((name) => `${name}:${oneLine(signed[name] ?? '')}\n`).join('');
    const list = names.join(';');
    const canonical = `${method}\n${path}\n${search}\n${lines}\n${list}\n${signed[BODY_HASH]}`;
    const scope = `${day}/${region}/s3/aws4_request`;
    const toSign = `${ALGORITHM}\n${instant}\n${scope}\n${sha256(canonical)}`;
    const signature = hmac(keyOf(keys.secretAccessKey, day), toSign).toString('hex');
    signed['authorization'] =
      `${ALGORITHM} Credential=${keys.accessKeyId}/${scope}, SignedHeaders=${list}, Signature=${signature}`;
    return signed;
  };
}

const BODY_HASH = 'x-amz-content-sha256';

function withOwn(
  headers: Signable['headers'],
  { sessionToken }: Keys,
  instant: string,
  body: Signable['body'],
): Record<string, string> {
  const signed: Record<string, string> = {
    ...headers,
    'x-amz-date': instant,
    [BODY_HASH]: body === undefined ? NO_BODY : sha256(body),
  };
  if (sessionToken !== undefined) signed['x-amz-security-token'] = sessionToken;
  return signed;
}

/** Servers sign spaces in a row as one, and none at either end. */
function oneLine(value: string): string {
  return value.includes(' ') ? value.trim().replaceAll(/ +/g, ' ') : value;
}

function sha256(bytes: BinaryLike): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
