// One request over one of few kept-alive sockets, and the head of its answer: watched for stalls, through the proxy
// where one is set. Closing it destroys the sockets, so that nothing keeps the process alive. It never tries again.
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import https from 'node:https';
import { PlainAgent, SecureProxyAgent, TunnelAgent } from './agents.ts';
import { certificates } from './certificates.ts';
import { addressOf, authorityOf, type Environment, isSecure, proxyFor, proxyHeaders } from './proxy.ts';

/** One for each push (sidecar/queue/files), and some for records and deletions. */
const MOST_SOCKETS = 40;
/** A request that moves no byte for so long, or hardly any of its answer, is dead: it is ended and tried again. */
const STALL_MS = 30_000;

/**
 * After that, an idle socket is closed: what stands between forgets connections without a word, and the next request
 * would only find out by a stall. Servers that say how long they wait themselves (`Keep-Alive: timeout=5`) are believed.
 */
const IDLE_MS = 15_000;

export interface TransportTuning {
  readonly stallMs?: number;
  readonly idleMs?: number;
}

/** A server, by name or by address. */
export interface Server {
  readonly isTls: boolean;
  /** Without the brackets of an IPv6 address. */
  readonly host: string;
  readonly port: number;
}

export interface Outgoing {
  readonly server: Server;
  readonly method: string;
  /** Escaped already, with the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string | undefined;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: IncomingMessage;
  /**
   * Calls `then` when all of the request's body has been handed to the kernel. A server may answer early, and what is
   * not written yet is still to be read from the body.
   */
  onceLeft(then: () => void): void;
  /** Ends the connection if not all of the request's body has left: from now on nobody reads the body. */
  stopSending(): void;
}

/** Why no answer came; `code` is the system's. */
export class Unanswered extends Error {
  readonly code: string | undefined;
  /** `host:port` of the proxy that failed. */
  readonly proxy: string | undefined;
  /** The socket had been idle before, and the server may have closed it meanwhile: then nobody has read the request. */
  readonly wasIdle: boolean;

  constructor(cause: NodeJS.ErrnoException & { readonly proxy?: string }, wasIdle: boolean) {
    super(cause.message, { cause });
    this.name = 'Unanswered';
    this.code = cause.code;
    this.proxy = cause.proxy;
    this.wasIdle = wasIdle;
  }
}

const CLOSED = 'the store is closed';

export type Transport = ReturnType<typeof openTransport>;

/** The sockets of one store; `close()` closes them. */
export function openTransport({ stallMs = STALL_MS, idleMs = IDLE_MS }: TransportTuning = {}) {
  // An agent's own limit is that of its idle sockets; each request brings another.
  const sockets = {
    keepAlive: true,
    maxSockets: MOST_SOCKETS,
    maxFreeSockets: MOST_SOCKETS,
    timeout: idleMs,
  };
  const plain = new PlainAgent(sockets, stallMs);
  // Each look into process.env asks the C library anew, and a request takes two.
  const env = { ...process.env };
  const ca = certificates();
  const secure = new TunnelAgent({ ...sockets, ca }, stallMs, env);
  const secureProxy = new SecureProxyAgent({ ...sockets, ca }, stallMs);
  const agents = [plain, secure, secureProxy];
  const underWay = new Set<GiveUp>();
  let isClosed = false;
  return {
    /** Resolves with the head of the answer; its body must be read or destroyed. */
    send: async (outgoing: Outgoing, signal: AbortSignal | undefined): Promise<Answer> => {
      signal?.throwIfAborted();
      if (isClosed) throw new Error(CLOSED);
      const { isTls } = outgoing.server;
      const { server, method, path, headers, body } = isTls ? outgoing : throughProxy(outgoing, env);
      const straight = server.isTls ? secureProxy : plain;
      const sender = (isTls ? https : http).request({
        agent: isTls ? secure : straight,
        host: server.host,
        port: server.port,
        method,
        path,
        headers,
        timeout: stallMs,
      });
      const answer = answerTo(sender, signal, underWay);
      sender.end(body);
      return answer;
    },
    /** What has been idle as long as a socket that turned out to be dead is dead, too. */
    closeIdle: () => {
      for (const agent of agents)
        for (const idle of Object.values(agent.freeSockets))
          for (const socket of idle ?? []) socket.destroy();
    },
    close: () => {
      isClosed = true;
      for (const giveUp of underWay) giveUp(new Error(CLOSED));
      for (const agent of agents) agent.destroy();
    },
  };
}

type GiveUp = (why: Error) => void;

function answerTo(
  sender: http.ClientRequest,
  signal: AbortSignal | undefined,
  underWay: Set<GiveUp>,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const giveUp = (why: Error): void => {
      sender.destroy(why);
      // A request that waits for a socket says nothing before it has got one.
      reject(new Unanswered(why, false));
    };
    const abort = (): void => giveUp(new Error('aborted'));
    underWay.add(giveUp);
    signal?.addEventListener('abort', abort, { once: true });
    let isAnswered = false;
    sender.once('close', () => {
      underWay.delete(giveUp);
      signal?.removeEventListener('abort', abort);
      // Node tells no error of an answer that ends HTTP on the socket (101 Switching Protocols).
      const gone = 'closed without an answer';
      if (!isAnswered) reject(new Unanswered(Object.assign(new Error(gone), { code: 'ECONNRESET' }), false));
    });
    sender.once('timeout', () => giveUp(Object.assign(new Error('no byte in time'), { code: 'ETIMEDOUT' })));
    sender.on('error', (error) => reject(new Unanswered(error, sender.reusedSocket)));
    sender.once('response', (body) => {
      isAnswered = true;
      // Whoever reads the body is told; nobody may be reading it.
      body.on('error', () => undefined);
      const onceLeft = (then: () => void): void => {
        if (sender.writableFinished) then();
        else sender.once('finish', then);
      };
      const stopSending = (): void => {
        if (!sender.writableFinished) sender.destroy();
      };
      resolve({ status: body.statusCode ?? 0, headers: body.headers, body, onceLeft, stopSending });
    });
  });
}

/** Plain http goes to a proxy in absolute form (RFC 9112, section 3.2.2). */
function throughProxy(outgoing: Outgoing, env: Environment): Outgoing {
  const { host, port } = outgoing.server;
  const proxy = proxyFor({ protocol: 'http:', host, port }, env);
  if (proxy === undefined) return outgoing;
  return {
    ...outgoing,
    server: { isTls: isSecure(proxy), ...addressOf(proxy) },
    path: `http://${authorityOf(outgoing.server)}${outgoing.path}`,
    headers: { ...outgoing.headers, ...proxyHeaders(proxy) },
  };
}
