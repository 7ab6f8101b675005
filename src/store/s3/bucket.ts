// One bucket and prefix, and how to ask for anything in it: every request of the driver goes through
// `request`, which retries, renews expired credentials, and words what went wrong. It never logs.
import { S3Client } from '@aws-sdk/client-s3';
import type { StoreSettings } from '../../model/format/settings.ts';
import { retrying } from '../contract/driver.ts';
import { StoreError, type OnTry, type StoreUse } from '../contract/store.ts';
import { detailsOf, failureOf, mayBeExpired, type Failure } from './failure.ts';
import { openTransport, SILENT, type Transport, type TransportTuning } from './transport.ts';
import { PATH_STYLE } from './url.ts';

/** The requests that this driver sends, by their names in S3's documentation and in policies, and what each is for. */
const USES = {
  GetObject: 'read',
  HeadObject: 'read',
  ListObjectsV2: 'read',
  PutObject: 'write',
  CreateMultipartUpload: 'write',
  UploadPart: 'write',
  CompleteMultipartUpload: 'write',
  CopyObject: 'write',
  UploadPartCopy: 'write',
  DeleteObject: 'remove',
  AbortMultipartUpload: 'remove',
  ListMultipartUploads: 'remove',
} as const satisfies Readonly<Record<string, StoreUse>>;

type Operation = keyof typeof USES;

/** S3 needs a region in the signature; servers of one's own take any. */
const DEFAULT_REGION = 'us-east-1';

export interface Bucket {
  readonly name: string;
  /** Empty, or ending in `/`. */
  readonly prefix: string;
  /** `s3://bucket/prefix` */
  readonly url: string;
  /** True when the requests are known to go to Amazon's own servers. */
  isAws(): boolean;
  /** The server of the last request, for messages. */
  endpoint(): string;
  /** Calls `then` once nothing reads the body of an answered request any more; for some requests that never comes. */
  onceLeft(body: Uint8Array, then: () => void): void;
  readonly budgetMs: number;
  readonly onTry: OnTry | undefined;
  /** The client to use now: there is a new one once the credentials have expired. */
  client(): S3Client;
  renew(expired: S3Client): void;
  close(): void;
}

export interface BucketTuning extends TransportTuning {
  readonly onTry?: OnTry | undefined;
}

/** Opens a bucket with what the AWS environment and profile say; sends nothing. */
export async function openBucket(
  settings: StoreSettings,
  budgetMs: number,
  { onTry, ...tuning }: BucketTuning = {},
): Promise<Bucket> {
  const [, name, path = ''] = /^s3:\/\/([^/]+)(?:\/(.*))?$/.exec(settings.url) ?? [];
  if (name === undefined) {
    throw new StoreError('refused', `cannot open the store ${settings.url}: no bucket`, {
      hint: 'write s3://bucket/prefix',
    });
  }
  const prefix = path.replace(/^\/+|\/+$/g, '');
  const transport = openTransport(tuning);
  let region: string | undefined;
  const newClient = (): S3Client =>
    clientOf({ transport, region, pathStyle: settings.flags.includes(PATH_STYLE) });
  region = await newClient()
    .config.region()
    .catch(() => DEFAULT_REGION);
  let current = newClient();
  return {
    name,
    prefix: prefix === '' ? '' : `${prefix}/`,
    url: prefix === '' ? `s3://${name}` : `s3://${name}/${prefix}`,
    isAws: () => /\.amazonaws\.com(\.cn)?$/.test(transport.origin ?? ''),
    endpoint: () => transport.origin ?? 'the server',
    onceLeft: (body, then) => transport.onceLeft(body, then),
    budgetMs,
    onTry,
    client: () => current,
    renew: (expired) => {
      // Several requests learn of the expiry at once: one new client serves them all.
      if (current === expired) current = newClient();
    },
    close: () => transport.destroy(),
  };
}

interface ClientOptions {
  readonly transport: Transport;
  readonly region: string | undefined;
  readonly pathStyle: boolean;
}

function clientOf({ transport, region, pathStyle }: ClientOptions): S3Client {
  // Passed on to the credential providers: a new client must read the profile's files anew.
  const fresh = { ignoreCache: true };
  return new S3Client({
    ...fresh,
    ...(region === undefined ? {} : { region }),
    requestHandler: transport,
    forcePathStyle: pathStyle,
    logger: SILENT,
    // Retrying is ours: the SDK's token bucket drains in a long outage, and then every call fails at once.
    maxAttempts: 1,
    retryMode: 'standard',
    defaultsMode: 'legacy',
    // The SDK's default CRC trailers make RGW answer 411 and other servers store the framing. The SHA-256 in
    // each signature is the content hash: the server refuses a body that does not match, and it costs one
    // pass over the bytes (with Content-MD5 it would be two).
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    // A part is in memory anyway: waiting for "100 Continue" would cost a round trip for each.
    expectContinueHeader: false,
  });
}

export interface RequestOptions<Instead> {
  readonly operation: Operation;
  /** Relative to the prefix; a prefix itself for listings. */
  readonly key: string;
  readonly signal?: AbortSignal;
  /** Instead of the bucket's. */
  readonly budgetMs?: number;
  /** Asked about every failure: a value ends the request with it, as if that had been the answer. */
  readonly onFailure?: (failure: Failure) => Promise<Instead | undefined>;
}

/** Sends one request, and again while that makes sense; throws a {@link StoreError}, or the signal's reason. */
export async function request<Answer, Instead = never>(
  bucket: Bucket,
  options: RequestOptions<Instead>,
  send: (client: S3Client, http: { readonly abortSignal?: AbortSignal }) => Promise<Answer>,
): Promise<Answer | Instead> {
  const { signal, onFailure } = options;
  let renewed = false;
  const attempt = async (tries: number): Promise<Answer | Instead> => {
    const client = bucket.client();
    try {
      return await send(client, { abortSignal: signal });
    } catch (error) {
      signal?.throwIfAborted();
      const failure = failureOf(error, bucket.endpoint());
      if (mayBeExpired(failure) && !renewed) {
        renewed = true;
        bucket.renew(client);
        return attempt(tries + 1);
      }
      const told = storeError(bucket, options, { failure, tries, cause: error });
      // Told before we look what the request has done after all: if nothing answers, the look takes as long again.
      if (failure.lost) bucket.onTry?.(USES[options.operation], told);
      const instead = await onFailure?.(failure);
      if (instead !== undefined) return instead;
      throw told;
    }
  };
  return retrying(attempt, {
    budgetMs: options.budgetMs ?? bucket.budgetMs,
    signal,
    onTry: (error) => bucket.onTry?.(USES[options.operation], error),
  });
}

function storeError(
  bucket: Bucket,
  { operation, key }: Pick<RequestOptions<unknown>, 'operation' | 'key'>,
  { failure, tries, cause }: { readonly failure: Failure; readonly tries: number; readonly cause: unknown },
): StoreError {
  const where = `s3://${bucket.name}/${bucket.prefix}${key}`;
  const hint =
    failure.hint ??
    (failure.kind === 'denied'
      ? `check that these credentials may ${operation} under ${bucket.prefix === '' ? bucket.url : bucket.prefix}`
      : undefined);
  const message = `${operation} ${where}: ${failure.why} (${detailsOf(failure, tries)})`;
  return new StoreError(failure.kind, message, { hint, cause });
}
