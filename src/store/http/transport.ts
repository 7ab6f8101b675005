// Sends one request over one of a few kept-alive sockets, through the proxy if one is set, and reads the head of its
// answer. It watches for stalls. Closing it destroys the sockets, so that nothing keeps the process alive. It never
// retries.
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import https from 'node:https';
import { timedOut } from '../../model/errors.ts';
import { type LongTimer, startTimer } from '../../native/clock.ts';
import { SLOWEST_BYTES_PER_S } from '../contract/store.ts';
import { CONNECT_TIMEOUT_MS, PlainAgent, SecureProxyAgent, TunnelAgent } from './agents.ts';
import { addressOf, authorityOf, type Environment, isSecure, proxyFor, proxyHeaders } from './proxy.ts';

/** One for each push (sidecar/queue/files), and some for records and deletions. */
const MOST_SOCKETS = 40;
/**
 * A request that transfers no byte for this time, or hardly any byte of its answer, is dead: it is ended, and the
 * caller retries it.
 */
const STALL_MS = 30_000;
/**
 * An answer without an object must be complete within this multiple of the stall limit: ten minutes. S3 copies 5 GiB,
 * or joins parts, in a few minutes.
 */
const STALLS_A_TEXT = 20;
/**
 * RFC 9110, section 15.2: a client must accept 1xx answers before the final one. We request none, and S3 sends none.
 */
const MOST_INFORMATION = 10;

/**
 * An idle socket is closed after this time. Middleboxes silently forget connections, and the next request would notice
 * that only by a stall. If a server announces its own time (`Keep-Alive: timeout=5`), that is used.
 */
const IDLE_MS = 15_000;

export interface TransportTuning {
  readonly stallMs?: number;
  readonly idleMs?: number;
  /** Replaces the built-in certificate authorities, for servers and proxies alike. */
  readonly ca?: Buffer | undefined;
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
  /** Already escaped, with the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string | undefined;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: IncomingMessage;
  /** The time limit for the complete body of an answer that is no object. */
  readonly textMs: number;
  /**
   * Calls `then` when the whole request body has been handed to the kernel. A server may answer early, while the rest
   * of the body must still be read.
   */
  onceLeft(then: () => void): void;
  /** Closes the connection if part of the request body was not sent: from now on nobody reads the body. */
  stopSending(): void;
}

/** Why no answer arrived; `code` is the system's. */
export class Unanswered extends Error {
  readonly code: string | undefined;
  /** `host:port` of the proxy that failed. */
  readonly proxy: string | undefined;
  /** The socket had been idle, and the server may have closed it in the meantime. Then the request was not read. */
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
export function openTransport({ stallMs = STALL_MS, idleMs = IDLE_MS, ca }: TransportTuning = {}) {
  // An agent's own timeout is for its idle sockets; each request sets another one.
  const sockets = {
    keepAlive: true,
    maxSockets: MOST_SOCKETS,
    maxFreeSockets: MOST_SOCKETS,
    timeout: idleMs,
  };
  const plain = new PlainAgent(sockets, stallMs);
  // Each access to process.env calls the C library, and a request needs two.
  const env = { ...process.env };
  const secure = new TunnelAgent({ ...sockets, ca }, stallMs, env);
  const secureProxy = new SecureProxyAgent({ ...sockets, ca }, stallMs);
  const agents = [plain, secure, secureProxy];
  const underWay = new Set<GiveUp>();
  let isClosed = false;
  return {
    /** Resolves with the head of the answer. Its body must be read or destroyed. */
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
      const answer = answerTo(sender, { signal, underWay, stallMs, bodyBytes: body?.length ?? 0 });
      sender.end(body);
      return answer;
    },
    /** Sockets that were idle as long as a socket that turned out to be dead are dead, too. */
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

interface Sending {
  readonly signal: AbortSignal | undefined;
  readonly underWay: Set<GiveUp>;
  readonly stallMs: number;
  readonly bodyBytes: number;
}

function answerTo(sender: http.ClientRequest, sending: Sending): Promise<Answer> {
  const { signal, underWay, stallMs } = sending;
  return new Promise((resolve, reject) => {
    const giveUp = (why: Error): void => {
      sender.destroy(why);
      // A request that waits for a socket has no timeout before it gets one.
      reject(new Unanswered(why, false));
    };
    const abort = (): void => giveUp(new Error('aborted'));
    limitHead(sender, sending, giveUp);
    underWay.add(giveUp);
    signal?.addEventListener('abort', abort, { once: true });
    let isAnswered = false;
    sender.once('close', () => {
      underWay.delete(giveUp);
      signal?.removeEventListener('abort', abort);
      // Node reports no error for an answer that ends HTTP on the socket (101 Switching Protocols).
      const gone = 'closed without an answer';
      if (!isAnswered) reject(new Unanswered(Object.assign(new Error(gone), { code: 'ECONNRESET' }), false));
    });
    sender.once('timeout', () => giveUp(timedOut('no byte in time')));
    sender.on('error', (error) => reject(new Unanswered(error, sender.reusedSocket)));
    sender.once('response', (body) => {
      isAnswered = true;
      // The body's reader gets the error; there may be no reader.
      body.on('error', () => undefined);
      const onceLeft = (then: () => void): void => {
        if (sender.writableFinished) then();
        else sender.once('finish', then);
      };
      const stopSending = (): void => {
        if (!sender.writableFinished) sender.destroy();
      };
      const { statusCode: status = 0, headers } = body;
      resolve({ status, headers, body, textMs: stallMs * STALLS_A_TEXT, onceLeft, stopSending });
    });
  });
}

/**
 * The head of an answer must be complete in time, because 1xx answers restart the socket's timeout with each byte. The
 * time starts when the request gets its socket, and allows for the slowest possible sending of the body. It restarts
 * when the body was sent.
 */
function limitHead(sender: http.ClientRequest, { stallMs, bodyBytes }: Sending, giveUp: GiveUp): void {
  let timer: LongTimer | undefined;
  const within = (ms: number): void => {
    timer?.cancel();
    timer = sender.destroyed ? undefined : startTimer(ms, () => giveUp(timedOut('no answer in time')));
  };
  const stop = (): void => {
    isOver = true;
    timer?.cancel();
  };
  let isOver = false;
  let told = 0;
  sender.once('socket', () =>
    within(CONNECT_TIMEOUT_MS + stallMs + (bodyBytes / SLOWEST_BYTES_PER_S) * 1000),
  );
  sender.once('finish', () => (isOver ? undefined : within(stallMs)));
  sender.once('response', stop).once('close', stop);
  sender.on('information', () => {
    told += 1;
    if (told > MOST_INFORMATION) giveUp(timedOut('answers that only inform, and no end of them'));
  });
}

/** Plain http is sent to a proxy in absolute form (RFC 9112, section 3.2.2). */
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
