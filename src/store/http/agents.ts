// How connections are made and limited. They have a connect timeout, and TLS goes through a CONNECT tunnel if a proxy
// is set. Connections that answer too slowly are closed. All limits belong to sockets: a limit on a whole request would
// include the wait for a free socket, and fail healthy requests on a slow link.
import http, { ClientRequest } from 'node:http';
import https from 'node:https';
import net from 'node:net';
import type { Duplex } from 'node:stream';
import tls from 'node:tls';
import { errnoOf } from '../../model/errors.ts';
import { SLOWEST_BYTES_PER_S } from '../contract/store.ts';
import { addressOf, authorityOf, isSecure, proxyFor, proxyHeaders, type Environment } from './proxy.ts';

export const CONNECT_TIMEOUT_MS = 10_000;
/** Number of checks within the limit. */
const LOOKS = 3;

type Created = Duplex | null | undefined;
type Callback = (error: Error | null, stream: Duplex) => void;

/** An agent for http. Its sockets must connect in time, and then deliver answers at a minimum rate. */
export class PlainAgent extends http.Agent {
  readonly #slowMs: number;

  constructor(options: http.AgentOptions, slowMs: number) {
    super(options);
    this.#slowMs = slowMs;
  }

  override createConnection(options: http.ClientRequestArgs, callback?: Callback): Created {
    return limited(super.createConnection(options, callback), this.#slowMs);
  }
}

/** An agent for plain http through a proxy that speaks TLS. `host` and `port` of its requests are the proxy's. */
export class SecureProxyAgent extends http.Agent {
  readonly #ca: Buffer | undefined;
  readonly #slowMs: number;

  constructor({ ca, ...options }: http.AgentOptions & Certificates, slowMs: number) {
    super(options);
    this.#ca = ca;
    this.#slowMs = slowMs;
  }

  override createConnection({ host, port }: http.ClientRequestArgs, callback?: Callback): Created {
    const proxy = { host: host ?? 'localhost', port: Number(port ?? 443) };
    secureTo(proxy, this.#ca).then(
      (socket) => callback?.(null, endWhenSlow(socket, this.#slowMs)),
      (error: Error) => fail(callback, error),
    );
    return undefined;
  }
}

/** An agent for https that uses the host's proxy, if one is set (RFC 9110, section 9.3.6). */
export class TunnelAgent extends https.Agent {
  readonly #env: Environment;
  readonly #ca: Buffer | undefined;
  readonly #slowMs: number;

  constructor(options: https.AgentOptions & Certificates, slowMs: number, env: Environment) {
    super(options);
    this.#env = env;
    this.#ca = options.ca;
    this.#slowMs = slowMs;
  }

  override createConnection(options: https.RequestOptions, callback?: Callback): Created {
    const host = options.host ?? 'localhost';
    const port = Number(options.port ?? 443);
    const proxy = proxyFor({ protocol: 'https:', host, port }, this.#env);
    if (proxy === undefined) return limited(super.createConnection(options, callback), this.#slowMs);
    connectThrough(proxy, authorityOf({ host, port }), this.#ca).then(
      (socket) => {
        const secure = tls.connect({ ...(options as tls.ConnectionOptions), socket });
        callback?.(null, endWhenSlow(secure, this.#slowMs));
      },
      (error: Error) => fail(callback, error),
    );
    return undefined;
  }
}

/** Replaces the built-in authorities, for servers and proxies alike. */
interface Certificates {
  readonly ca: Buffer | undefined;
}

/** Node uses the stream only if there is no error. */
function fail(callback: Callback | undefined, error: Error): void {
  (callback as ((error: Error) => void) | undefined)?.(error);
}

/** Destroys a socket that does not connect in time; its request fails with ETIMEDOUT. */
function limited(stream: Created, slowMs: number): Created {
  if (stream) endWhenSlow(stream, slowMs);
  if (!(stream instanceof net.Socket) || !stream.connecting) return stream;
  const timer = setTimeout(() => {
    stream.destroy(Object.assign(new Error('no connection in time'), { code: 'ETIMEDOUT' }));
  }, CONNECT_TIMEOUT_MS);
  const stop = (): void => clearTimeout(timer);
  stream.once('connect', stop).once('close', stop);
  return stream;
}

/** `proxy` is the URL of a proxy whose certificate is not trusted. */
function proxyFailure({ host, port }: Address, why: string, cause?: Error): Error {
  const code = isUntrusted(cause) ? cause.code : 'EPROXY';
  const proxy = authorityOf({ host, port });
  return Object.assign(new Error(`proxy ${proxy}: ${why}`, { cause }), { code, proxy });
}

/** Node's codes for an invalid certificate (tls documentation, X509 certificate error codes). */
const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO_(GET|VERIFY|DECRYPT)|^ERR_TLS/;

/** The other side could not prove its identity. */
export function isUntrusted(error: unknown): error is Error & { readonly code: string } {
  return CERTIFICATE.test(errnoOf(error) ?? '');
}

interface Address {
  readonly host: string;
  readonly port: number;
}

/** TLS to a proxy. Its certificate must name the proxy; Node's agents would check the name in the Host header. */
function secureTo({ host, port }: Address, ca: Buffer | undefined): Promise<tls.TLSSocket> {
  const name = net.isIP(host) === 0 ? { servername: host } : {};
  const socket = tls.connect({ host, port, ca, ...name });
  return new Promise((resolve, reject) => {
    const giveUp = (why: string, cause?: Error): void => {
      clearTimeout(timer);
      socket.destroy();
      reject(proxyFailure({ host, port }, why, cause));
    };
    const late = `no TLS connection in ${CONNECT_TIMEOUT_MS / 1000} s`;
    const timer = setTimeout(() => giveUp(late), CONNECT_TIMEOUT_MS);
    const hear = (error: Error): void => giveUp(error.message, error);
    const end = (): void => giveUp('closed the connection');
    socket.once('error', hear).once('close', end);
    socket.once('secureConnect', () => {
      clearTimeout(timer);
      socket.off('error', hear).off('close', end);
      resolve(socket);
    });
  });
}

/** Sends a proxy's password only to where its URL points. With `https://`, the proxy must prove its identity first. */
async function connectThrough(proxy: URL, target: string, ca: Buffer | undefined): Promise<net.Socket> {
  const address = addressOf(proxy);
  const secure = isSecure(proxy) ? await secureTo(address, ca) : undefined;
  const request = http.request({
    ...address,
    method: 'CONNECT',
    path: target,
    headers: { host: target, ...proxyHeaders(proxy) },
    timeout: CONNECT_TIMEOUT_MS,
    ...(secure === undefined ? { agent: false } : { createConnection: () => secure }),
  });
  return new Promise((resolve, reject) => {
    const late = (): void => giveUp(`no answer in ${CONNECT_TIMEOUT_MS / 1000} s`);
    let timer: NodeJS.Timeout | undefined;
    const giveUp = (why: string): void => {
      clearTimeout(timer);
      request.destroy();
      reject(proxyFailure(address, why));
    };
    // A socket's timeout restarts with each byte, also with those of 1xx answers.
    request.once('finish', () => (timer = setTimeout(late, CONNECT_TIMEOUT_MS)));
    request.once('connect', (response, socket) => {
      clearTimeout(timer);
      socket.setTimeout(0);
      if (response.statusCode === 200) resolve(socket);
      else giveUp(`http ${response.statusCode}`);
    });
    request.once('timeout', late);
    request.once('error', (error) => giveUp(error.message));
    request.end();
  });
}

/**
 * Destroys `stream` if an answer brings some bytes, but less than 100 a second, for `limitMs`. A server or gateway that
 * sends a byte now and then neither stalls nor answers, so the request must be retried.
 */
function endWhenSlow<T extends Duplex>(stream: T, limitMs: number): T {
  if (!(stream instanceof net.Socket)) return stream;
  const socket: net.Socket = stream;
  let before = { request: undefined as ClientRequest | undefined, read: 0, written: 0 };
  /** Bytes of the current answer per check, newest last. */
  let looks: readonly number[] = [];
  const look = (): void => {
    const now = { request: requestOn(socket), read: socket.bytesRead, written: socket.bytesWritten };
    const isAnswer =
      now.request !== undefined && now.request === before.request && now.written === before.written;
    looks = isAnswer && !mayTakeLong(now.request) ? [...looks, now.read - before.read].slice(-LOOKS) : [];
    before = now;
    const bytes = looks.reduce((sum, one) => sum + one, 0);
    // If nothing arrives at all, the socket's own timeout ends it.
    const isSlow = bytes > 0 && bytes < (SLOWEST_BYTES_PER_S * limitMs) / 1000;
    if (looks.length < LOOKS || !isSlow) return;
    socket.destroy(Object.assign(new Error('the answer comes a few bytes at a time'), { code: 'ETIMEDOUT' }));
  };
  const timer = setInterval(look, limitMs / LOOKS).unref();
  socket.once('close', () => clearInterval(timer));
  return stream;
}

/** Node sets `_httpMessage` while a request uses the socket (not in the types). */
function requestOn(socket: net.Socket): ClientRequest | undefined {
  const request: unknown = Reflect.get(socket, '_httpMessage');
  return request instanceof ClientRequest ? request : undefined;
}

/** S3 sends a space now and then while it completes an upload or copies (CompleteMultipartUpload, CopyObject). */
function mayTakeLong(request: ClientRequest | undefined): boolean {
  return request?.method === 'POST' || request?.getHeader('x-amz-copy-source') !== undefined;
}
