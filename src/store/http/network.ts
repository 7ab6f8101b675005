// Interprets a request that got no answer, and encodes the paths of URLs: what servers of all kinds have in common.
import type { StoreErrorKind } from '../contract/store.ts';
import { isUntrusted } from './agents.ts';
import { Unanswered } from './transport.ts';

/** The request cannot have reached the server. */
export const UNSENT = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EPROXY)$/;
/** Errors of a socket that the other side has closed. */
export const CLOSED = /^(ECONNRESET|EPIPE)$/;
/** Errors of sockets and of the HTTP parser (HPE_*). */
const NETWORK = /^(E[A-Z]+|HPE_.*|UND_ERR.*|ERR_SSL.*|ERR_STREAM_PREMATURE_CLOSE)$/;

export interface Meaning {
  readonly kind: StoreErrorKind;
  readonly why: string;
  readonly hint?: string;
}

/** `hints`: what to check if the server cannot be reached, and how its certificate becomes trusted. */
export function meaningOfNetwork(
  error: unknown,
  code: string,
  endpoint: string,
  hints: { readonly reach: string; readonly trust: string },
): Meaning | undefined {
  if (isUntrusted(error)) {
    const proxy: unknown = Reflect.get(error, 'proxy');
    const whose =
      typeof proxy === 'string'
        ? `the proxy ${proxy} is not trusted`
        : `the server is not trusted (${endpoint})`;
    return { kind: 'refused', why: `the certificate of ${whose}`, hint: hints.trust };
  }
  if (error instanceof Unanswered && (CLOSED.test(code) || code === 'ETIMEDOUT'))
    return { kind: 'transient', why: `no answer from ${endpoint}` };
  if (!NETWORK.test(code)) return undefined;
  return UNSENT.test(code)
    ? { kind: 'transient', why: `cannot reach ${endpoint}`, hint: hints.reach }
    : { kind: 'transient', why: `${endpoint} broke the connection` };
}

/** Encodes a URL path, but keeps all characters that signatures leave unescaped. */
export function escapedPath(key: string): string {
  return key.split('/').map(escaped).join('/');
}

/** RFC 3986, section 2.1: escapes everything except letters, digits and `-._~`. */
export function escaped(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
