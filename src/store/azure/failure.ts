// Interprets a failed request: what happened, whether a retry can help, and what the user can do. It never repeats a text
// of the server's, which may hold parts of a signature.
import { errnoOf } from '../../model/errors.ts';
import type { StoreErrorKind } from '../contract/store.ts';
import { NotFromStore } from '../http/body.ts';

/** A failed request in our words. */
export interface Failure {
  readonly kind: StoreErrorKind;
  /** HTTP status; undefined if no answer arrived. */
  readonly status: number | undefined;
  /** Azure's error code, or the system's (`ECONNREFUSED`). */
  readonly code: string;
  readonly why: string;
  readonly hint: string | undefined;
}

interface Meaning {
  readonly kind: StoreErrorKind;
  readonly why: string;
  readonly hint?: string;
}

const WHICH_KEY =
  'check AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, and the clock of this machine';
const NO_RIGHT: Meaning = {
  kind: 'denied',
  why: 'access denied',
  hint: 'give the identity the role "Storage Blob Data Contributor" on the container, or the SAS the rights racwdl',
};
const WRONG_KEY: Meaning = { kind: 'denied', why: 'the credentials are not accepted', hint: WHICH_KEY };
const NO_LOGIN: Meaning = {
  kind: 'denied',
  why: 'no credentials found',
  hint: 'set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, or log in: az login',
};
export const EXPIRED: Meaning = {
  kind: 'expired',
  why: 'the SAS has expired',
  hint: 'set a new AZURE_STORAGE_SAS_TOKEN, and run it again',
};
const BUSY: Meaning = { kind: 'busy', why: 'the server is busy' };
const GARBLED: Meaning = { kind: 'transient', why: 'the body was damaged on its way' };
const FOREIGN: Meaning = {
  kind: 'transient',
  why: 'the answer is not one of Azure',
  hint: 'check HTTPS_PROXY: something else answers in the place of the store',
};
const LEASED: Meaning = {
  kind: 'refused',
  why: 'somebody holds a lease on the object',
  hint: 'break the lease: az storage blob lease break',
};
const KEPT: Meaning = {
  kind: 'refused',
  why: 'a policy or a snapshot of the object forbids it',
  hint: 'use a container without immutability policies and legal holds, and delete snapshots',
};

/** Microsoft Learn, "Blob Storage error codes" and "Common REST API error codes". */
const BY_CODE: Readonly<Record<string, Meaning>> = {
  AuthenticationFailed: WRONG_KEY,
  AuthorizationFailure: { ...NO_RIGHT, why: 'access denied, perhaps by the network rules of the account' },
  AuthorizationPermissionMismatch: NO_RIGHT,
  InvalidAuthenticationInfo: WRONG_KEY,
  KeyBasedAuthenticationNotPermitted: {
    kind: 'denied',
    why: 'the account does not allow keys',
    hint: 'unset AZURE_STORAGE_KEY and AZURE_STORAGE_CONNECTION_STRING, and log in: az login',
  },
  NoAuthenticationInformation: WRONG_KEY,
  AccountIsDisabled: { kind: 'denied', why: 'the storage account is disabled' },
  ContainerNotFound: {
    kind: 'missing',
    why: 'no such container',
    hint: 'create it (az storage container create), or check its name',
  },
  ContainerBeingDeleted: { kind: 'missing', why: 'the container is being deleted' },
  InsufficientAccountPermissions: NO_RIGHT,
  InvalidMd5: GARBLED,
  Md5Mismatch: GARBLED,
  IncompleteBody: GARBLED,
  ServerBusy: BUSY,
  OperationTimedOut: { kind: 'transient', why: 'the server took too long' },
  BlobArchived: { kind: 'refused', why: 'the object is in the archive tier', hint: 'rehydrate it first' },
  BlobImmutableDueToPolicy: KEPT,
  SnapshotsPresent: KEPT,
  LeaseIdMissing: LEASED,
  LeaseAlreadyPresent: LEASED,
};

/** The request cannot have reached the server. */
const UNSENT = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/;
const UNTRUSTED = /CERT|SELF_SIGNED|UNABLE_TO_(GET|VERIFY)/;
const NO_CREDENTIALS =
  /^(CredentialUnavailableError|AggregateAuthenticationError|AuthenticationRequiredError)$/;

/** Interprets an error. `endpoint` names the server if no answer arrived. */
export function failureOf(error: unknown, endpoint: string): Failure {
  const name = field(error, 'name');
  const status = statusOf(error);
  const code = codeOf(error) ?? '';
  const known = Object.hasOwn(BY_CODE, code) ? BY_CODE[code] : undefined;
  const ofAnswer = (): Meaning =>
    status === undefined ? ofNetwork(error, code, endpoint) : ofStatus(status, code);
  const meaning = NO_CREDENTIALS.test(name ?? '') ? NO_LOGIN : (known ?? ofAnswer());
  return { hint: undefined, ...meaning, status, code };
}

/** `http 403, AuthenticationFailed, 1 try`, or `ECONNREFUSED, 7 tries`. */
export function detailsOf({ status, code }: Failure, tries: number): string {
  const facts = [
    ...(status === undefined ? [] : [`http ${status}`]),
    ...(code === '' ? [] : [code]),
    tries === 1 ? '1 try' : `${tries} tries`,
  ];
  return facts.join(', ');
}

/** The condition on the target of a write does not hold. */
export function isUnmet({ code }: Failure): boolean {
  return /^(BlobAlreadyExists|ConditionNotMet|TargetConditionNotMet)$/.test(code);
}

/** There is no such object. Only Azure knows it, and names a code: a gateway's 404 says nothing about objects. */
export function isAbsent({ status, code }: Failure): boolean {
  return status === 404 && code !== '' && code !== 'ContainerNotFound';
}

function ofStatus(status: number, code: string): Meaning {
  if (status === 401 || status === 403) return NO_RIGHT;
  if (status < 400 || (status === 404 && code === '')) return FOREIGN;
  if (status === 404) return { kind: 'missing', why: 'not found' };
  if (status === 507) return { kind: 'full', why: 'the server is full' };
  if (status === 429 || status === 503) return BUSY;
  if (status === 408 || (status >= 500 && status !== 501))
    return { kind: 'transient', why: 'the server failed' };
  return { kind: 'refused', why: 'the request was refused' };
}

function ofNetwork(error: unknown, code: string, endpoint: string): Meaning {
  if (error instanceof NotFromStore || isUnreadable(error)) return FOREIGN;
  if (UNTRUSTED.test(code)) {
    const hint = 'set NODE_EXTRA_CA_CERTS to the file of its certificate authority';
    return { kind: 'refused', why: `the certificate of ${endpoint} is not trusted`, hint };
  }
  // The text is ours (http/agents.ts): `proxy host:port: http 407`.
  if (code === 'EPROXY') {
    const hint = 'check HTTPS_PROXY and NO_PROXY';
    return { kind: 'transient', why: field(error, 'message') ?? 'the proxy failed', hint };
  }
  if (UNSENT.test(code)) {
    const hint = "check the account's name, the network and HTTPS_PROXY";
    return { kind: 'transient', why: `cannot reach ${endpoint}`, hint };
  }
  if (code === 'ETIMEDOUT') return { kind: 'transient', why: `no answer from ${endpoint}` };
  if (code !== '' && code !== 'ERR_INVALID_CHAR')
    return { kind: 'transient', why: `${endpoint} broke the connection` };
  return { kind: 'refused', why: field(error, 'message') ?? 'the request could not be sent' };
}

/** What the SDK throws if an answer lacks what it reads. */
function isUnreadable(error: unknown): boolean {
  return (error instanceof TypeError || error instanceof RangeError) && errnoOf(error) === undefined;
}

/** The status of the server, or of the one that was asked for a token. */
function statusOf(error: unknown): number | undefined {
  const status = get(error, 'statusCode');
  return typeof status === 'number' ? status : undefined;
}

/** The SDK has names of its own for answers that it cannot read, and for connections. */
const OF_THE_SDK = /^(PARSE_ERROR|REQUEST_SEND_ERROR)$/;

/** An answer to HEAD has its code in a header only. */
function codeOf(error: unknown): string | undefined {
  const code = field(get(error, 'details'), 'errorCode') ?? errnoOf(error);
  return code === undefined || OF_THE_SDK.test(code) ? undefined : code;
}

function field(holder: unknown, name: string): string | undefined {
  const value = get(holder, name);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function get(holder: unknown, name: string): unknown {
  return typeof holder === 'object' && holder !== null ? Reflect.get(holder, name) : undefined;
}
