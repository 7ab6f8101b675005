// Interprets a failed request: what happened, whether a retry can help, and what the user can do. It never repeats a
// secret.
import type { StoreErrorKind } from '../contract/store.ts';
import { NotFromStore, textOf } from '../http/body.ts';
import { CLOSED, type Meaning, meaningOfNetwork, UNSENT } from '../http/network.ts';
import { type Answer, Unanswered } from '../http/transport.ts';
import { errnoOf } from '../../model/errors.ts';
import { NoToken } from './credentials.ts';

/** An error of the server. Its name is the code of the XML API or the reason of the JSON API, or `Unknown`. */
export class Refusal extends Error {
  readonly status: number;

  constructor(status: number, code: string) {
    super(`http ${status}`);
    this.name = code;
    this.status = status;
  }
}

/** The error in an answer with a bad status. Both APIs give a name; only the XML API names a missing bucket by it. */
export async function refusalOf(answer: Answer): Promise<Refusal | NotFromStore> {
  const text = await textOf(answer).catch(() => '');
  const code = /<Code>(\w+)<\/Code>/.exec(text)?.[1] ?? /"reason":\s*"(\w+)"/.exec(text)?.[1] ?? 'Unknown';
  if (isGateways(answer)) return new NotFromStore('mark of Cloud Storage');
  const isBucket = answer.status === 404 && /specified bucket does not exist/i.test(text);
  return new Refusal(answer.status, isBucket ? 'NoSuchBucket' : code);
}

/** A gateway that does not find the store says nothing about objects. Cloud Storage marks its answers, also its pages. */
function isGateways({ status, headers }: Answer): boolean {
  const isPage = /^text\/html\b/i.test(headers['content-type'] ?? '');
  return status === 404 && isPage && headers['x-guploader-uploadid'] === undefined;
}

/** A failed request in our words. */
export interface Failure {
  readonly kind: StoreErrorKind;
  /** HTTP status; undefined if no answer arrived. */
  readonly status: number | undefined;
  readonly code: string;
  readonly why: string;
  readonly hint: string | undefined;
  /** The answer was lost, so the server may have executed the request. */
  readonly lost: boolean;
  /** The connection was idle before, so the server may have closed it without reading the request. */
  readonly wasIdle: boolean;
}

const LOGIN =
  'gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS to a file of credentials';
const EXPIRED: Meaning = { kind: 'expired', why: 'the credentials are not valid any more', hint: LOGIN };
const BUSY: Meaning = { kind: 'busy', why: 'the server is busy' };
const DAMAGED: Meaning = { kind: 'transient', why: 'the body was damaged on its way' };
const HINTS = {
  reach: 'check the network, HTTPS_PROXY and STORAGE_EMULATOR_HOST',
  trust: 'set NODE_EXTRA_CA_CERTS to the file of its certificate authority',
};

/** https://docs.cloud.google.com/storage/docs/xml-api/reference-status, and docs/json_api/v1/status-codes. */
const BY_CODE: Readonly<Record<string, Meaning>> = {
  NoSuchBucket: { kind: 'missing', why: 'no such bucket', hint: 'create the bucket, or check its name' },
  ExpiredToken: EXPIRED,
  AuthenticationRequired: EXPIRED,
  authError: EXPIRED,
  required: EXPIRED,
  SlowDown: BUSY,
  rateLimitExceeded: BUSY,
  userRateLimitExceeded: BUSY,
  QuotaExceeded: { kind: 'full', why: 'the quota is used up' },
  quotaExceeded: { kind: 'full', why: 'the quota is used up' },
  UserProjectMissing: {
    kind: 'denied',
    why: 'whoever asks must pay',
    hint: 'set GOOGLE_CLOUD_QUOTA_PROJECT to the project that pays',
  },
  BadDigest: DAMAGED,
  IncompleteBody: DAMAGED,
  NotFromStore: {
    kind: 'transient',
    why: 'the answer is not one of Cloud Storage',
    hint: 'check HTTPS_PROXY and STORAGE_EMULATOR_HOST: something else answers in the place of the store',
  },
};

/** Interprets an error. `endpoint` names the server if no answer arrived. */
export function failureOf(error: unknown, endpoint: string): Failure {
  const name = error instanceof Error ? error.name : 'Error';
  const known = Object.hasOwn(BY_CODE, name) ? BY_CODE[name] : undefined;
  if (error instanceof Refusal) {
    const { status } = error;
    const lost = status < 300 || status === 408 || (status >= 500 && status !== 501 && status !== 503);
    return {
      hint: undefined,
      ...(known ?? meaningOfStatus(status)),
      status,
      code: name,
      lost,
      wasIdle: false,
    };
  }
  const code = errnoOf(error) ?? name;
  const isTokenless = error instanceof NoToken;
  const meaning = known ?? (isTokenless ? meaningOfToken(error) : meaningOfOther(error, code, endpoint));
  return {
    hint: undefined,
    ...meaning,
    status: undefined,
    code,
    lost: meaning.kind === 'transient' && !isTokenless && !UNSENT.test(code),
    wasIdle: error instanceof Unanswered && error.wasIdle && CLOSED.test(code),
  };
}

function meaningOfStatus(status: number): Meaning {
  if (status === 401) return EXPIRED;
  if (status === 403) return { kind: 'denied', why: 'access denied' };
  if (status === 404) return { kind: 'missing', why: 'not found' };
  if (status === 412) return { kind: 'refused', why: 'the object is in another state' };
  if (status === 429) return BUSY;
  if (status === 507) return { kind: 'full', why: 'the server is full' };
  if (status === 410) return { kind: 'refused', why: 'the upload is gone' };
  if (status === 408 || (status >= 500 && status !== 501))
    return { kind: 'transient', why: 'the server failed' };
  return { kind: 'refused', why: 'the request was refused' };
}

/** https://www.rfc-editor.org/rfc/rfc6749#section-5.2: 400 is a grant that is not valid any more. */
function meaningOfToken(error: NoToken): Meaning {
  const { status, message } = error;
  if (message.startsWith('Could not load the default credentials'))
    return { kind: 'denied', why: 'no credentials found', hint: LOGIN };
  if (/invalid_grant/.test(message) || status === 401)
    return { ...EXPIRED, why: `${EXPIRED.why} (${message})` };
  if (status === 429 || (status !== undefined && status >= 500))
    return { kind: 'transient', why: `no token: http ${status} from who gives tokens` };
  const cause = causeOf(error);
  if (cause !== undefined)
    return {
      kind: 'transient',
      why: `no token: ${cause}`,
      hint: 'check the network, HTTPS_PROXY and GCE_METADATA_HOST',
    };
  return { kind: 'denied', why: `no token: ${message}`, hint: LOGIN };
}

/** The network error beneath the library's own errors, or our time limit. */
function causeOf(error: Error): string | undefined {
  for (let at: unknown = error; at instanceof Error; at = at.cause)
    if (at instanceof Unanswered || at.message.startsWith('no answer in')) return at.message;
  return undefined;
}

function meaningOfOther(error: unknown, code: string, endpoint: string): Meaning {
  const meaning = meaningOfNetwork(error, code, endpoint, HINTS);
  return (
    meaning ?? {
      kind: 'refused',
      why: error instanceof Error ? error.message : 'the request could not be sent',
    }
  );
}

/** `http 403, forbidden, 1 try`, or `ECONNREFUSED, 7 tries`. */
export function detailsOf({ status, code }: Failure, tries: number): string {
  const isNamed = !/^(Error|Unknown|Unanswered|NoToken|NotFromStore|StoreError)$/.test(code);
  const facts = [
    ...(status === undefined ? [] : [`http ${status}`]),
    ...(isNamed ? [code] : []),
    tries === 1 ? '1 try' : `${tries} tries`,
  ];
  return facts.join(', ');
}
