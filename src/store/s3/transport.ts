// The sockets to S3: few, kept alive, watched for stalls, through the proxy where one is set. Closing it
// destroys them, so that nothing keeps the process alive.
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { StoreError } from '../contract/store.ts';
import { PlainAgent, TunnelAgent } from './agents.ts';
import { proxyFor, proxyHeaders } from './proxy.ts';

/** Each socket in use holds a part in memory; more of them are no faster on one link. */
const MOST_SOCKETS = 8;
/** A request that moves no byte for so long, or hardly any of its answer, is dead: it is ended and tried again. */
const STALL_MS = 30_000;

/** The SDK's own logger would write to the terminal of the task. */
export const SILENT = { trace: ignore, debug: ignore, info: ignore, warn: ignore, error: ignore };

function ignore(): void {}

export interface TransportTuning {
  readonly stallMs?: number;
}

type HttpRequest = Parameters<NodeHttpHandler['handle']>[0];
type HandlerOptions = Parameters<NodeHttpHandler['handle']>[1];
type HandlerAnswer = ReturnType<NodeHttpHandler['handle']>;

/** Node's handler, with plain http requests rewritten for a proxy: absolute form (RFC 9112, section 3.2.2). */
export class Transport extends NodeHttpHandler {
  #origin: string | undefined;
  readonly #senders = new WeakMap<object, http.ClientRequest>();

  /**
   * Calls `then` when all of the body of a request that was answered has been handed to the kernel. A server may
   * answer early, and what is not written yet is still to be read from the body.
   */
  onceLeft(body: object, then: () => void): void {
    const sender = this.#senders.get(body);
    if (sender?.writableFinished === true) then();
    else sender?.once('finish', then);
  }

  /** Where the last request went, `https://host`; undefined before the first. */
  get origin(): string | undefined {
    return this.#origin;
  }

  override async handle(request: HttpRequest, options?: HandlerOptions): HandlerAnswer {
    const port = request.port ?? 80;
    this.#origin = `${request.protocol}//${request.hostname}${request.port === undefined ? '' : `:${request.port}`}`;
    const proxy =
      request.protocol === 'http:'
        ? proxyFor({ protocol: 'http:', host: request.hostname, port }, process.env)
        : undefined;
    if (proxy === undefined) return this.#send(request, options);
    // A copy: the SDK keeps the request, and a second try must not be rewritten twice.
    const proxied: HttpRequest = Object.create(request, {
      hostname: { value: proxy.hostname },
      port: { value: Number(proxy.port || 80) },
      path: { value: `http://${request.hostname}:${port}${request.path}` },
      headers: { value: { ...request.headers, ...proxyHeaders(proxy) } },
    });
    return this.#send(proxied, options);
  }

  async #send(request: HttpRequest, options?: HandlerOptions): HandlerAnswer {
    const answer = await super.handle(request, options);
    const { body } = answer.response;
    const sender = body instanceof http.IncomingMessage ? senderOf(body) : undefined;
    if (sender !== undefined && request.body instanceof Uint8Array) this.#senders.set(request.body, sender);
    return answer;
  }
}

/** Node sets it on the answers that a client gets (`message.req`, not in the types). */
function senderOf(answer: http.IncomingMessage): http.ClientRequest | undefined {
  return (answer as { readonly req?: http.ClientRequest }).req;
}

/** The request handler of every client of one store; `destroy()` closes its sockets. */
export function openTransport({ stallMs = STALL_MS }: TransportTuning = {}): Transport {
  const sockets = { keepAlive: true, maxSockets: MOST_SOCKETS, maxFreeSockets: MOST_SOCKETS };
  return new Transport({
    socketTimeout: stallMs,
    httpAgent: new PlainAgent(sockets, stallMs),
    httpsAgent: new TunnelAgent({ ...sockets, ca: certificates() }, stallMs, process.env),
    logger: SILENT,
  });
}

/** AWS_CA_BUNDLE takes the place of the built-in authorities, as in the AWS CLI. */
function certificates(): Buffer | undefined {
  const path = process.env['AWS_CA_BUNDLE'];
  if (path === undefined || path === '') return undefined;
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new StoreError('refused', `cannot read the certificates that AWS_CA_BUNDLE names (${path})`, {
      cause,
    });
  }
}
