// The tokens of Application Default Credentials: a service account, gcloud's own user credentials, workload identity
// federation, or the metadata server. Google's library finds them; its requests use our sockets, proxy and limits.
import { AsyncLocalStorage } from 'node:async_hooks';
import { gaxios, GoogleAuth } from 'google-auth-library';
import { untilAborted, whileLinked } from '../../model/waiting.ts';
import { startTimer } from '../../native/clock.ts';
import { textOf } from '../http/body.ts';
import { hostOf } from '../http/proxy.ts';
import type { Transport } from '../http/transport.ts';

/** For one call of the library: a credential program may hang, and roles take several requests. */
const CALL_WITHIN_MS = 60_000;
const SCOPE = 'https://www.googleapis.com/auth/devstorage.read_write';

/** No token. `message` says why, and has no secret. */
export class NoToken extends Error {
  /** HTTP status of whoever gives tokens; undefined if there was no answer. */
  readonly status: number | undefined;

  constructor(why: string, cause: unknown) {
    super(why, { cause });
    this.name = 'NoToken';
    this.status = statusOf(cause);
  }
}

/** The headers that prove who we are, and who pays. */
export type HeaderSource = (signal?: AbortSignal) => Promise<Readonly<Record<string, string>>>;

/** Caches tokens and renews them before they expire. Each new source reads its files again. */
export function newHeaderSource(transport: Transport, limitMs = CALL_WITHIN_MS): HeaderSource {
  // Without a project the library would ask for its name, which no request needs.
  const auth = new GoogleAuth({ scopes: SCOPE, projectId: 'none' });
  return async (signal) => {
    signal?.throwIfAborted();
    const stop = new AbortController();
    const timer = startTimer(limitMs, () => stop.abort(new Error(`no answer in ${limitMs / 1000} s`)));
    const ask = (): Promise<Headers> => untilAborted(auth.getRequestHeaders(), stop.signal);
    try {
      const call = calls.run({ transport, signal: stop.signal }, ask);
      return Object.fromEntries(await untilAborted(call, signal));
    } catch (error) {
      signal?.throwIfAborted();
      throw new NoToken(error instanceof Error ? firstLine(error.message) : 'unknown', error);
    } finally {
      timer.cancel();
    }
  };
}

function firstLine(text: string): string {
  return text.replace(/\s*\n.*/s, '');
}

function statusOf(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const status: unknown = Reflect.get(error, 'status');
  return typeof status === 'number' ? status : undefined;
}

interface TokenCall {
  readonly transport: Transport;
  /** Ends its requests. */
  readonly signal: AbortSignal;
}

const calls = new AsyncLocalStorage<TokenCall>();

/** `fetch` as far as the library uses it. It follows no redirect. */
const fetchOfCall: typeof fetch = async (input, init = {}) => {
  const call = calls.getStore();
  if (call === undefined) throw new Error('a request for a token outside of a call');
  const url = new URL(input instanceof Request ? input.url : input);
  const isTls = url.protocol === 'https:';
  const body = init.body === undefined || init.body === null ? undefined : bytesOf(init.body);
  const headers = Object.fromEntries(new Headers(init.headers));
  if (body !== undefined) headers['content-length'] = String(body.length);
  const server = { isTls, host: hostOf(url), port: Number(url.port || (isTls ? 443 : 80)) };
  const outgoing = { server, method: init.method ?? 'GET', path: url.pathname + url.search, headers, body };
  const answer = await whileLinked([call.signal, init.signal ?? undefined], (signal) =>
    call.transport.send(outgoing, signal),
  );
  const flat = Object.entries(answer.headers).map(([name, value]): [string, string] => [name, String(value)]);
  const text = await textOf(answer);
  return new Response(text === '' ? null : text, { status: answer.status, headers: flat });
};

/** The library sends forms and JSON. */
function bytesOf(body: unknown): Buffer {
  return body instanceof Uint8Array ? Buffer.from(body) : Buffer.from(String(body));
}

/** The library makes clients of its own for some requests. Each of them is to use our sockets. */
const { prototype } = gaxios.Gaxios;
const adapter = Reflect.get(prototype, '_defaultAdapter') as (this: unknown, config: object) => unknown;
Reflect.set(prototype, '_defaultAdapter', function overOurs(this: unknown, config: object): unknown {
  return adapter.call(this, { ...config, fetchImplementation: fetchOfCall });
});
