// One bucket and prefix. Every request of the driver goes through `request`: it signs, retries, renews expired
// credentials, corrects the clock, and words errors. It never logs.
import { hash } from 'node:crypto';
import { Sha256 } from '@smithy/core/checksum';
import { memoize } from '@smithy/core/config';
import { SignatureV4 } from '@smithy/signature-v4';
import type { HttpRequest } from '@smithy/types';
import type { StoreSettings } from '../../model/format/settings.ts';
import { untilAborted } from '../../model/waiting.ts';
import { retrying } from '../contract/driver.ts';
import { type Access, StoreError, type OnTry, type StoreUse } from '../contract/store.ts';
import { refusalOf, xmlOf } from './answer.ts';
import { promised } from '../http/body.ts';
import type { Keys, KeySource } from './credentials.ts';
import {
  type BucketLocation,
  keysOfVariables,
  locationOf,
  newKeySource,
  refuseControlCharacters,
} from './environment.ts';
import { escaped, escapedPath } from '../http/network.ts';
import { certificates } from './certificates.ts';
import { detailsOf, failureOf, mayBeExpired, type Failure } from './failure.ts';
import { LateWrites } from './late.ts';
import { refuseSpecialFiles } from './special-files.ts';
import { openTransport, type Answer, type Transport, type TransportTuning } from '../http/transport.ts';
import { objectHeaders, type ObjectParams, objectParams } from './object-options.ts';
import { isDirectory, PATH_STYLE, splitUrl } from './url.ts';

/** The requests of this driver, by their names in S3's documentation and in policies, with their purposes. */
const OPERATIONS = {
  GetObject: { use: 'read', method: 'GET' },
  HeadObject: { use: 'read', method: 'HEAD' },
  ListObjectsV2: { use: 'read', method: 'GET' },
  PutObject: { use: 'write', method: 'PUT' },
  CreateMultipartUpload: { use: 'write', method: 'POST' },
  UploadPart: { use: 'write', method: 'PUT' },
  CompleteMultipartUpload: { use: 'write', method: 'POST' },
  CopyObject: { use: 'write', method: 'PUT' },
  UploadPartCopy: { use: 'write', method: 'PUT' },
  DeleteObject: { use: 'remove', method: 'DELETE' },
  AbortMultipartUpload: { use: 'remove', method: 'DELETE' },
  ListMultipartUploads: { use: 'remove', method: 'GET' },
  // For a directory bucket: each request is signed with a session's keys.
  CreateSession: { use: 'read', method: 'GET' },
} as const satisfies Readonly<Record<string, { readonly use: StoreUse; readonly method: string }>>;

export type Operation = keyof typeof OPERATIONS;

export interface Bucket {
  readonly name: string;
  /** Empty, or ends with `/`. */
  readonly prefix: string;
  /** `s3://bucket/prefix` */
  readonly url: string;
  readonly location: BucketLocation;
  readonly transport: Transport;
  readonly budgetMs: number;
  readonly onTry: OnTry | undefined;
  /** What is known about the server. */
  readonly server: ServerFacts;
  readonly late: LateWrites;
  /** What new objects are told. */
  readonly objectParams: ObjectParams;
  /** The keys that are valid now. */
  keys(signal?: AbortSignal): Promise<Keys>;
  /** The signer with the keys that are valid now. It is replaced once the credentials have expired. */
  signer(): Signer;
  renew(expired: Signer): void;
  /** The source of a session's keys, if the bucket needs a session. */
  readonly session: KeySource | undefined;
  /** The time for signatures: the server's, once its clock is known to differ. */
  now(): Date;
  /** Reads the server's time from an error answer. */
  setClock(answer: Answer): void;
  close(): void;
}

export interface ServerFacts {
  /**
   * How the server handles If-Match on a put. `read`: a condition that does not hold is refused; one that holds was not
   * tried yet. `unread`: the condition is ignored, or refused even if it holds.
   */
  conditions: 'unknown' | 'read' | 'honoured' | 'unread';
  /** Ceph RGW 16 honours an ETag without its quotes, and refuses one with them. */
  quotesTags: boolean;
  /** If-Match on completions and copies. If it is not known to be honoured, a look comes first. */
  otherConditions: 'honoured' | 'unread';
  /** Whether a copy may specify the state of its source. */
  sourceConditions: 'honoured' | 'unread';
  /** Whether ETags are md5s, for objects that are not encrypted and were stored by one put. */
  etags: 'unknown' | 'md5' | 'other';
  /** Operations that make ETags in another way, although those of puts are md5s. */
  readonly otherTags: Set<Operation>;
  /** CRC-32 checksums of parts, which cost far less than md5. `refused` if an upload cannot start with them. */
  checksums: 'asked' | 'refused';
  /** Whether the checksums in its answers are of the bytes that arrived, or only those that were sent to it. */
  sums: 'unknown' | 'computed' | 'repeated';
}

export interface BucketTuning extends TransportTuning {
  readonly onTry?: OnTry | undefined;
}

/** Opens a bucket with the settings of the AWS environment and profile. Sends nothing to it. */
export async function openBucket(
  settings: StoreSettings,
  budgetMs: number,
  { onTry, ...tuning }: BucketTuning = {},
): Promise<Bucket> {
  const { bucket: name, prefix } = splitUrl(settings.url);
  if (name === '') {
    throw new StoreError('refused', `cannot open the store ${settings.url}: no bucket`, {
      hint: 'write s3://bucket/prefix',
    });
  }
  refuseSpecialFiles(process.env);
  refuseControlCharacters(process.env);
  const location = await locationOf(name, settings.flags.includes(PATH_STYLE));
  const transport = openTransport({ ca: certificates(), ...tuning });
  const isSession = isDirectory(name);
  let keys = newKeySource(transport, location.region);
  let session = memoize(() => newSession(bucket), isEndingSoon);
  const newSigner = (): Signer =>
    isSession ? sessionSigner(location, () => session()) : keySigner(location, keys);
  let signer = newSigner();
  let aheadMs = 0;
  const bucket: Bucket = {
    name,
    prefix: prefix === '' ? '' : `${prefix}/`,
    url: prefix === '' ? `s3://${name}` : `s3://${name}/${prefix}`,
    location,
    transport,
    budgetMs,
    onTry,
    server: firstFacts(location, isSession),
    late: new LateWrites(),
    objectParams: objectParams(settings.flags),
    keys: (signal) => keys(signal),
    signer: () => signer,
    session: isSession ? () => session() : undefined,
    renew: (expired) => {
      // Several requests notice the expiry at once; one new signer serves all of them.
      if (signer !== expired) return;
      keys = newKeySource(transport, location.region);
      session = memoize(() => newSession(bucket), isEndingSoon);
      signer = newSigner();
    },
    now: () => new Date(new Date().getTime() + aheadMs),
    setClock: ({ headers }) => {
      const serverMs = Date.parse(headers.date ?? '');
      // No signature can carry another time, and then no answer could ever correct the clock.
      if (!(serverMs > EARLIEST_MS && serverMs < LATEST_MS)) return;
      const behindMs = serverMs - new Date().getTime();
      aheadMs = Math.abs(behindMs) > TOLERATED_SKEW_MS ? behindMs : 0;
    },
    close: () => transport.close(),
  };
  return bucket;
}

/** What is known before the first answer. */
function firstFacts(location: BucketLocation, isSession: boolean): ServerFacts {
  return {
    conditions: location.isAws ? 'honoured' : 'unknown',
    quotesTags: true,
    otherConditions: location.isAws && !isSession ? 'honoured' : 'unread',
    sourceConditions: 'honoured',
    etags: isSession ? 'other' : 'unknown',
    otherTags: new Set(),
    checksums: 'asked',
    sums: location.isAws ? 'computed' : 'unknown',
  };
}

/** What is known about the credentials. Asks their source, and throws a StoreError if it has none. */
export async function accessOf(bucket: Bucket, signal?: AbortSignal): Promise<Access> {
  try {
    const { sessionToken, expiration } = await bucket.keys(signal);
    return {
      expiresMs: expiration?.getTime(),
      isSession: sessionToken !== undefined,
      isRenewable: keysOfVariables(process.env) === undefined,
    };
  } catch (cause) {
    signal?.throwIfAborted();
    const { kind, why, hint } = failureOf(cause, bucket.location.origin);
    throw new StoreError(kind, `credentials of ${bucket.url}: ${why}`, { hint, cause });
  }
}

/** A server's date outside of these years is a fault of the server. */
const [EARLIEST_MS, LATEST_MS] = [Date.UTC(2000), Date.UTC(2100)];

/** S3 refuses a request whose signature is 15 minutes too old or too new. */
const TOLERATED_SKEW_MS = 5 * 60_000;

export interface Signer {
  /** The signal ends the waiting for the keys. */
  sign(request: HttpRequest, options: SigningOptions): Promise<HttpRequest>;
}

interface SigningOptions {
  readonly signingDate: Date;
  readonly signal: AbortSignal | undefined;
}

type SignedFor = Pick<BucketLocation, 'region' | 'service'>;

function signerFor({ region, service }: SignedFor, credentials: Keys): SignatureV4 {
  return new SignatureV4({ service, region, credentials, sha256: Sha256, uriEscapePath: false });
}

/** Signs with the keys that are valid at that moment. */
export function keySigner(location: SignedFor, keys: KeySource): Signer {
  return {
    sign: async (request, { signingDate, signal }) => {
      const now = await keys(signal);
      return signerFor(location, now).sign(request, { signingDate });
    },
  };
}

/** The session token has a header of its own. */
function sessionSigner(location: BucketLocation, session: KeySource): Signer {
  return {
    sign: async (request, { signingDate, signal }) => {
      const { sessionToken = '', ...keys } = await untilAborted(session(), signal);
      const headers = { ...request.headers, 'x-amz-s3session-token': sessionToken };
      return signerFor(location, keys).sign({ ...request, headers }, { signingDate });
    },
  };
}

/** Only one try, because the request that needs the session is retried. */
async function newSession(bucket: Bucket): Promise<Keys> {
  const signer = keySigner(bucket.location, bucket.keys);
  const ask = { operation: 'CreateSession' as const, key: '', signal: undefined };
  const answer = await send(bucket, ask, { query: { session: '' } }, signer);
  if (answer.status >= 300) throw await refusalOf(answer);
  const credentials = (await xmlOf(answer)).all('Credentials')[0];
  const has = (name: string): string => promised(credentials?.text(name), name);
  return {
    accessKeyId: has('AccessKeyId'),
    secretAccessKey: has('SecretAccessKey'),
    sessionToken: has('SessionToken'),
    expiration: new Date(has('Expiration')),
  };
}

/** A session lasts five minutes. */
function isEndingSoon({ expiration }: Keys): boolean {
  return (expiration?.getTime() ?? 0) < new Date().getTime() + 60_000;
}

/** What a request adds to its operation and key. */
export interface Call {
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
}

export interface RequestOptions<Instead> {
  readonly operation: Operation;
  /** Relative to the prefix. For listings it is a prefix itself. */
  readonly key: string;
  readonly signal?: AbortSignal;
  /** Replaces the bucket's budget. */
  readonly budgetMs?: number;
  /** Called for every failure. A returned value ends the request, as if it had been the answer. */
  readonly onFailure?: (failure: Failure) => Promise<Instead | undefined>;
}

/** Sends one request, with retries where they help. Throws a {@link StoreError}, or the signal's reason. */
export async function request<Result, Instead = never>(
  bucket: Bucket,
  options: RequestOptions<Instead>,
  ask: (send: (call?: Call) => Promise<Answer>) => Promise<Result>,
): Promise<Result | Instead> {
  const { signal, onFailure } = options;
  const { use } = OPERATIONS[options.operation];
  let renewed = false;
  let refreshed = false;
  let corrected = false;
  const attempt = async (tries: number): Promise<Result | Instead> => {
    const signer = bucket.signer();
    let answer: Answer | undefined;
    let isSkewed = false;
    try {
      return await ask(async (call = {}) => {
        const signedMs = bucket.now().getTime();
        answer = await send(bucket, options, call, signer);
        // Compares with the time of the signature, because the answer to a HEAD has no error code.
        isSkewed = answer.status === 403 && apartMs(bucket.now(), signedMs) > TOLERATED_SKEW_MS;
        if (answer.status >= 300) throw await refusalOf(answer);
        return answer;
      });
    } catch (error) {
      // A server may refuse a body before it has read it. The body's memory may be reused soon.
      answer?.stopSending();
      signal?.throwIfAborted();
      const failure = failureOf(error, bucket.location.origin);
      if (mayBeExpired(failure) && !renewed) {
        renewed = true;
        bucket.renew(signer);
        return attempt(tries + 1);
      }
      if (isSkewed && !corrected) {
        corrected = true;
        return attempt(tries + 1);
      }
      if (failure.wasIdle) bucket.transport.closeIdle();
      const told = storeError(bucket, options, { failure, tries, cause: error });
      // Reported before the look that checks what the request has done: if the server is down, the look takes as long
      // again.
      if (failure.lost && !failure.wasIdle) bucket.onTry?.(use, told);
      const instead = await onFailure?.(failure);
      if (instead !== undefined) return instead;
      if (failure.wasIdle && !refreshed) {
        refreshed = true;
        return attempt(tries + 1);
      }
      throw told;
    }
  };
  return retrying(attempt, {
    budgetMs: options.budgetMs ?? bucket.budgetMs,
    signal,
    onTry: (error) => bucket.onTry?.(use, error),
  });
}

function apartMs(now: Date, thenMs: number): number {
  return Math.abs(now.getTime() - thenMs);
}

/**
 * The signature covers the hash of the body
 * (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
 */
async function send(
  bucket: Bucket,
  { operation, key, signal }: RequestOptions<unknown>,
  { query = {}, headers, body }: Call,
  signer: Signer,
): Promise<Answer> {
  const { method } = OPERATIONS[operation];
  const { server, authority, path: base } = bucket.location;
  const path = `${base}/${operation.startsWith('List') || operation === 'CreateSession' ? '' : escapedPath(bucket.prefix + key)}`;
  const ofObject = objectHeaders(bucket.objectParams, operation, body?.byteLength ?? 0);
  const told: Record<string, string> = { host: authority, ...ofObject, ...headers };
  told['x-amz-content-sha256'] = hash('sha256', body ?? '');
  if (method === 'PUT' || method === 'POST') told['content-length'] = String(body?.byteLength ?? 0);
  const protocol = server.isTls ? 'https:' : 'http:';
  const { headers: signed } = await signer.sign(
    { method, protocol, hostname: server.host, path, query: { ...query }, headers: told, body },
    { signingDate: bucket.now(), signal },
  );
  // Not signed, because proxies may change it.
  signed['user-agent'] = USER_AGENT;
  const search = Object.entries(query).map(([name, value]) => `${name}=${escaped(value)}`);
  const whole = search.length === 0 ? path : `${path}?${search.join('&')}`;
  const answer = await bucket.transport.send({ server, method, path: whole, headers: signed, body }, signal);
  if (answer.status === 403) bucket.setClock(answer);
  return answer;
}

const USER_AGENT = `capture/${CAPTURE_VERSION} node/${process.versions.node}`;

/** The error of a failed request. */
export function storeError(
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
