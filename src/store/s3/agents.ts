// How connections are made: with a time limit, and for TLS through a CONNECT tunnel where a proxy is set; and how they
// are ended when an answer comes too slowly. A limit on the whole request would also count the wait for a free socket,
// and fail healthy requests on a slow link: so each is one of the socket.
import http, { ClientRequest } from 'node:http';
import https from 'node:https';
import net from 'node:net';
import type { Duplex } from 'node:stream';
import tls from 'node:tls';
import { SLOWEST_BYTES_PER_S } from '../contract/store.ts';
import { isUntrusted } from './certificates.ts';
import { addressOf, authorityOf, isSecure, proxyFor, proxyHeaders, type Environment } from './proxy.ts';

const CONNECT_TIMEOUT_MS = 10_000;
/** How often we look within the limit. */
const LOOKS = 3;

type Created = Duplex | null | undefined;
type Callback = (error: Error | null, stream: Duplex) => void;

/** An agent for http whose sockets must connect in time, and then bring answers at some pace. */
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

/** An agent for plain http through a proxy that speaks TLS: `host` and `port` of its requests are the proxy's. */
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

/** An agent for https that goes through a proxy where one is set for the host (RFC 9110, section 9.3.6). */
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

/** What takes the place of the built-in authorities, for servers and proxies alike. */
interface Certificates {
  readonly ca: Buffer | undefined;
}

/** Node looks at the stream only when there is no error. */
function fail(callback: Callback | undefined, error: Error): void {
  (callback as ((error: Error) => void) | undefined)?.(error);
}

/** Ends a socket that does not connect; the request that waits for it hears ETIMEDOUT. */
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

/** `proxy`, a URL, tells whose certificate is not trusted. */
function proxyFailure({ host, port }: Address, why: string, cause?: Error): Error {
  const code = isUntrusted(cause) ? cause.code : 'EPROXY';
  const proxy = authorityOf({ host, port });
  return Object.assign(new Error(`proxy ${proxy}: ${why}`, { cause }), { code, proxy });
}

interface Address {
  readonly host: string;
  readonly port: number;
}

/** TLS to a proxy. Its certificate must name the proxy: Node's agents would take the name out of the header Host. */
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

/** The password of a proxy goes only where its URL says: with `https://` to nobody who has not proven to be the proxy. */
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
    const giveUp = (why: string): void => {
      request.destroy();
      reject(proxyFailure(address, why));
    };
    request.once('connect', (response, socket) => {
      socket.setTimeout(0);
      if (response.statusCode === 200) resolve(socket);
      else giveUp(`http ${response.statusCode}`);
    });
    request.once('timeout', () => giveUp(`no answer in ${CONNECT_TIMEOUT_MS / 1000} s`));
    request.once('error', (error) => giveUp(error.message));
    request.end();
  });
}

/**
 * Ends `stream` when it brings less than 100 bytes a second of one answer for `limitMs`, but more than none. A server, or
 * what stands before it, that sends a byte now and then does not stall, and does not answer: it must be tried again.
 */
function endWhenSlow<T extends Duplex>(stream: T, limitMs: number): T {
  if (!(stream instanceof net.Socket)) return stream;
  const socket: net.Socket = stream;
  let before = { request: undefined as ClientRequest | undefined, read: 0, written: 0 };
  let slowLooks = 0;
  const look = (): void => {
    const now = { request: requestOn(socket), read: socket.bytesRead, written: socket.bytesWritten };
    const bytes = now.read - before.read;
    const isAnswer =
      now.request !== undefined && now.request === before.request && now.written === before.written;
    // If nothing comes at all, the socket's own timeout ends it.
    const isSlow = bytes > 0 && bytes < (SLOWEST_BYTES_PER_S * limitMs) / LOOKS / 1000;
    slowLooks = isAnswer && isSlow && !mayTakeLong(now.request) ? slowLooks + 1 : 0;
    before = now;
    if (slowLooks < LOOKS) return;
    socket.destroy(Object.assign(new Error('the answer comes a few bytes at a time'), { code: 'ETIMEDOUT' }));
  };
  const timer = setInterval(look, limitMs / LOOKS).unref();
  socket.once('close', () => clearInterval(timer));
  return stream;
}

/** Node sets it while a request has the socket (`_httpMessage`, not in the types). */
function requestOn(socket: net.Socket): ClientRequest | undefined {
  const request: unknown = Reflect.get(socket, '_httpMessage');
  return request instanceof ClientRequest ? request : undefined;
}

/** S3 sends a space now and then while it completes an upload or copies (CompleteMultipartUpload, CopyObject). */
function mayTakeLong(request: ClientRequest | undefined): boolean {
  return request?.method === 'POST' || request?.getHeader('x-amz-copy-source') !== undefined;
}
