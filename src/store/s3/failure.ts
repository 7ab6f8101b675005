// Interprets a failed request: what happened, whether a retry can help, and what the user can do. It must cope with
// answers without a message (Ceph RGW) or without XML (load balancers), and never repeat a secret.
import type { StoreErrorKind } from '../contract/store.ts';
import { CLOSED, type Meaning, meaningOfNetwork, UNSENT } from '../http/network.ts';
import { Unanswered } from '../http/transport.ts';
import { Refusal } from './answer.ts';
import { GIVEN_UP } from './bounded.ts';

/** A failed request in our words. */
export interface Failure {
  readonly kind: StoreErrorKind;
  /** HTTP status; undefined if no answer arrived. */
  readonly status: number | undefined;
  /** S3's error code, or the system's (`ECONNREFUSED`). */
  readonly code: string;
  readonly why: string;
  readonly hint: string | undefined;
  /** The answer was lost, so the server may have executed the request. */
  readonly lost: boolean;
  /** The connection was idle before, so the server may have closed it without reading the request. */
  readonly wasIdle: boolean;
}

const CLOCK = 'set the clock of this machine (timedatectl, chronyc): S3 allows 15 minutes';
const EXPIRED: Meaning = {
  kind: 'expired',
  why: 'credentials expired',
  hint: 'renew them (aws sso login, the credentials file): capture reads them again, but not those in AWS_* variables',
};
const REGION: Meaning = {
  kind: 'refused',
  why: 'the bucket is in another region',
  hint: 'set AWS_REGION to the region of the bucket',
};
/** The server is overloaded. Any status may come with this code. */
const BUSY: Meaning = { kind: 'busy', why: 'the server is busy' };
/** A captive portal, or a load balancer that redirects elsewhere: "200 OK" without S3's content. */
const NOT_S3: Meaning = {
  kind: 'transient',
  why: 'the answer is not one of S3',
  hint: 'check AWS_ENDPOINT_URL and HTTPS_PROXY: something else answers in the place of the store',
};
const GARBLED: Meaning = { kind: 'transient', why: 'the body was damaged on its way' };

/** https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html, and codes of RGW and MinIO. */
const BY_CODE: Readonly<Record<string, Meaning>> = {
  InvalidAccessKeyId: {
    kind: 'denied',
    why: 'unknown access key',
    hint: 'check AWS_ACCESS_KEY_ID or AWS_PROFILE',
  },
  SignatureDoesNotMatch: {
    kind: 'denied',
    why: 'the secret key does not fit',
    hint: 'check AWS_SECRET_ACCESS_KEY or AWS_PROFILE',
  },
  InvalidToken: { kind: 'denied', why: 'the session token is not valid', hint: 'check AWS_SESSION_TOKEN' },
  RequestTimeTooSkewed: {
    kind: 'refused',
    why: 'the clocks of this machine and of the server differ',
    hint: CLOCK,
  },
  ExpiredToken: EXPIRED,
  ExpiredTokenException: EXPIRED,
  TokenRefreshRequired: EXPIRED,
  NoSuchBucket: {
    kind: 'missing',
    why: 'no such bucket',
    hint: 'create the bucket, or check its name and AWS_ENDPOINT_URL',
  },
  PermanentRedirect: REGION,
  AuthorizationHeaderMalformed: REGION,
  QuotaExceeded: { kind: 'full', why: 'the quota is used up' },
  XMinioStorageFull: { kind: 'full', why: 'the server is full' },
  NoSuchUpload: { kind: 'refused', why: 'the upload is gone: somebody else has ended it' },
  ConditionalRequestConflict: { kind: 'transient', why: 'another write of this key is under way' },
  OperationAborted: { kind: 'transient', why: 'another write is under way' },
  RequestTimeout: { kind: 'transient', why: 'the server waited too long for the body' },
  NotFromStore: NOT_S3,
  IncompleteBody: GARBLED,
  BadDigest: GARBLED,
  XAmzContentSHA256Mismatch: GARBLED,
  SlowDown: BUSY,
  Throttling: BUSY,
  ThrottlingException: BUSY,
  RequestLimitExceeded: BUSY,
};

const NO_CREDENTIALS: Meaning = {
  kind: 'denied',
  why: 'no credentials found',
  hint: 'set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY',
};
const UNPRINTABLE: Meaning = {
  kind: 'denied',
  why: 'the credentials have a character that no header can have',
  hint: 'write key and session token again, in printable ASCII: in the AWS_* variables, or where the profile gets them',
};
const HINTS = {
  reach: 'check AWS_ENDPOINT_URL, the network and HTTPS_PROXY',
  trust: 'set AWS_CA_BUNDLE to the file of its certificate authority',
};

/** Interprets an error. `endpoint` names the server if no answer arrived. */
export function failureOf(error: unknown, endpoint: string): Failure {
  const status = statusOf(error);
  const name = field(error, 'name') ?? 'Error';
  const known = Object.hasOwn(BY_CODE, name) ? BY_CODE[name] : undefined;
  if (status !== undefined) {
    return {
      hint: undefined,
      ...(known ?? meaningOfStatus(status)),
      status,
      code: name,
      lost: status < 300 || status === 500 || status === 502 || status === 504,
      wasIdle: false,
    };
  }
  const code = field(error, 'code') ?? name;
  // Without keys nothing was sent.
  const isUnsigned = name === GIVEN_UP;
  const meaning = known ?? meaningWithout(error, name, code, endpoint);
  return {
    hint: undefined,
    ...meaning,
    status,
    code,
    lost: meaning.kind === 'transient' && !isUnsigned && !UNSENT.test(code),
    wasIdle: error instanceof Unanswered && error.wasIdle && CLOSED.test(code),
  };
}

/** Error names that stand for "no code", in this driver and in the SDK's credential sources. */
const NO_CODE = /^(Error|GivenUp|Unknown|UnknownError|Unanswered|SyntaxError|NotFromStore|StoreError|\d+)$/;

/** Answers to HEAD have no body, so expired credentials give only status 400. */
export function mayBeExpired({ kind, status, code }: Failure): boolean {
  return kind === 'expired' || (status === 400 && NO_CODE.test(code));
}

/** `http 403, AccessDenied, 1 try`, or `ECONNREFUSED, 7 tries`. */
export function detailsOf(failure: Failure, tries: number): string {
  const facts = [
    ...(failure.status === undefined ? [] : [`http ${failure.status}`]),
    ...(NO_CODE.test(failure.code) ? [] : [failure.code]),
    tries === 1 ? '1 try' : `${tries} tries`,
  ];
  return facts.join(', ');
}

function meaningOfStatus(status: number): Meaning {
  if (status < 300) return NOT_S3;
  if (status === 401 || status === 403) return { kind: 'denied', why: 'access denied' };
  if (status === 404) return { kind: 'missing', why: 'not found' };
  if (status === 412) return { kind: 'refused', why: 'the object exists' };
  if (status === 507) return { kind: 'full', why: 'the server is full' };
  if (status === 301 || status === 307) return REGION;
  if (status === 429) return BUSY;
  // 501 is permanent: the server does not implement the operation.
  if (status === 408 || (status >= 500 && status !== 501))
    return { kind: 'transient', why: 'the server failed' };
  return { kind: 'refused', why: status === 501 ? 'the server cannot do this' : 'the request was refused' };
}

function meaningWithout(error: unknown, name: string, code: string, endpoint: string): Meaning {
  if (/Credentials|TokenProviderError/.test(name)) return NO_CREDENTIALS;
  if (code === 'ERR_INVALID_CHAR') return UNPRINTABLE;
  if (name === GIVEN_UP)
    return {
      kind: 'transient',
      why: `no credentials from ${field(error, 'message')}`,
      hint: 'check credential_process of the profile, AWS_CONTAINER_CREDENTIALS_FULL_URI and AWS_EC2_METADATA_SERVICE_ENDPOINT: it hangs, or something else answers there',
    };
  const meaning = meaningOfNetwork(error, code, endpoint, HINTS);
  if (meaning !== undefined) return meaning;
  // The SDK's credential sources have limits of their own.
  if (name === 'TimeoutError') return { kind: 'transient', why: `no answer from ${endpoint}` };
  const why = field(error, 'message') ?? 'the request could not be sent';
  return { kind: 'refused', why, hint: field(error, 'hint') };
}

/** The status of the server, or of another one that the SDK has asked for credentials. */
function statusOf(error: unknown): number | undefined {
  if (error instanceof Refusal) return error.status;
  const status: unknown = get(get(error, '$metadata'), 'httpStatusCode');
  return typeof status === 'number' ? status : undefined;
}

function field(error: unknown, name: string): string | undefined {
  const value = get(error, name);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function get(holder: unknown, name: string): unknown {
  return typeof holder === 'object' && holder !== null ? Reflect.get(holder, name) : undefined;
}
