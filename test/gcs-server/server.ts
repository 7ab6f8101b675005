// A server for tests, on loopback, that answers as Google documents Cloud Storage, and whoever gives tokens for it. It
// fails on request.
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Fault as AnyFault, receiveBody } from '../s3-server/faults.ts';
import { GcsRefusal, Objects, type StoredObject } from './objects.ts';
import { type Answer, type Asked, askedBy, perform } from './operations.ts';
import { tokenFor } from './tokens.ts';

export type Fault =
  | Extract<
      AnyFault,
      { readonly kind: 'lose-answer' | 'reset' | 'stall' | 'damage' | 'late' | 'delay' | 'cut-answer' }
    >
  | { readonly kind: 'answer'; readonly status: number; readonly reason?: string; readonly body?: string }
  /** Takes only these bytes of a request of an upload. */
  | { readonly kind: 'take'; readonly bytes: number };

/** `nth` is how many requests of this operation came, with this one. */
export interface Incoming extends Asked {
  readonly nth: number;
}

export interface GcsServer {
  readonly url: string;
  readonly port: number;
  readonly objects: Objects;
  /** For a process that is to use this server without credentials. */
  readonly env: Readonly<Record<string, string>>;
  fault: (incoming: Incoming) => Fault | undefined;
  readonly served: readonly Incoming[];
  /** Tokens that requests must have one of; undefined: none is needed. */
  tokens: Set<string> | undefined;
  pageSize: number;
  rewriteCalls: number;
  /** Requests that got no answer, and whose client has closed the connection. */
  abandoned: number;
  /** Requests that were cut for the client, in order: each is done when it is called. */
  readonly held: (() => void)[];
  keys(): readonly string[];
  object(key: string): StoredObject | undefined;
  /** All states that readers of the key could see. */
  versions(key: string): readonly StoredObject[];
  /** Forgets the uploads that are under way. */
  forgetUploads(): void;
  stop(): Promise<void>;
}

export interface GcsServerOptions {
  readonly port?: number;
  /** Continues with the objects of a server that was stopped. */
  readonly after?: Objects;
}

export const BUCKET = 'lab';

/** Starts a server on a port of 127.0.0.1, with the bucket `lab`. */
export async function startGcsServer({ port: wanted, after }: GcsServerOptions = {}): Promise<
  GcsServer & { readonly objects: Objects }
> {
  const objects = after ?? new Objects();
  const served: Incoming[] = [];
  const counts = new Map<string, number>();
  const sockets = new Set<{ destroy(): void }>();
  const server = http.createServer((request, response) => {
    serve(request, response).catch(() => response.destroy());
  });
  server.on('connection', (socket) => sockets.add(socket));
  server.listen(wanted ?? 0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;

  async function serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const { method = 'GET', url: target = '/', headers } = request;
    const token = tokenFor(target, headers, state);
    if (token !== undefined) return send(response, await token(request));
    let asked: Asked;
    try {
      asked = askedBy(method, target, headers);
    } catch (error) {
      request.resume();
      return send(response, refusalOf(error, true), method);
    }
    const nth = (counts.get(asked.operation) ?? 0) + 1;
    counts.set(asked.operation, nth);
    const incoming = { ...asked, nth };
    const fault = state.fault(incoming);
    served.push(incoming);
    if (fault?.kind === 'stall') request.socket.once('close', () => (state.abandoned += 1));
    const body = await receiveBody(
      request,
      fault?.kind === 'take' || fault?.kind === 'answer' ? undefined : fault,
    );
    if (body === undefined || fault?.kind === 'stall') return undefined;
    const isXml = asked.operation === 'get' || asked.operation === 'head' || asked.operation === 'put';
    const work = (): Answer => {
      try {
        if (fault?.kind === 'answer') {
          if (fault.body !== undefined)
            return { status: fault.status, body: fault.body, headers: { 'content-type': 'text/html' } };
          throw new GcsRefusal(fault.status, fault.reason ?? 'fault');
        }
        const bearer = headers.authorization?.replace(/^Bearer /, '');
        if (state.tokens !== undefined && !state.tokens.has(bearer ?? ''))
          throw new GcsRefusal(401, isXml ? 'AuthenticationRequired' : 'authError');
        if (bearer === 'denied') throw new GcsRefusal(403, isXml ? 'AccessDenied' : 'forbidden');
        if (asked.bucket !== BUCKET) throw new GcsRefusal(404, isXml ? 'NoSuchBucket' : 'bucket');
        const taken = (sent: Buffer): Buffer =>
          fault?.kind === 'take' ? sent.subarray(0, fault.bytes) : sent;
        const { pageSize, rewriteCalls } = state;
        const ways = { pageSize, rewriteCalls, taken, origin: url };
        if (fault?.kind !== 'damage') return perform(objects, asked, body, ways);
        // Behind the check of what came.
        const { 'x-goog-hash': _, ...unchecked } = headers;
        return perform(objects, { ...asked, headers: unchecked }, Buffer.from(body).fill(0, 0, 1), ways);
      } catch (error) {
        return refusalOf(error, isXml);
      }
    };
    if (fault?.kind === 'late') {
      state.held.push(work);
      return void response.destroy();
    }
    const answer = work();
    if (fault?.kind === 'lose-answer') return void response.destroy();
    if (fault?.kind === 'cut-answer') {
      response.writeHead(answer.status, {
        ...answer.headers,
        'content-length': Buffer.byteLength(answer.body ?? ''),
      });
      response.write(Buffer.from(answer.body ?? '').subarray(0, fault.afterBytes), () => response.destroy());
      return undefined;
    }
    return send(response, answer, method);
  }

  const state: GcsServer = {
    url,
    port,
    objects,
    env: { STORAGE_EMULATOR_HOST: url },
    fault: () => undefined,
    served,
    tokens: undefined,
    pageSize: 1000,
    rewriteCalls: 1,
    abandoned: 0,
    held: [],
    keys: () => objects.keys(),
    object: (key) => objects.current(key),
    versions: (key) => objects.versions.get(key) ?? [],
    forgetUploads: () => objects.uploads.clear(),
    stop: async () => {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
  return state;
}

/** An error as each of the two APIs says it. */
function refusalOf(error: unknown, isXml: boolean): Answer {
  if (!(error instanceof GcsRefusal)) throw error;
  const { status, reason } = error;
  if (isXml) {
    const body = `<?xml version='1.0' encoding='UTF-8'?><Error><Code>${reason}</Code><Message>${reason}</Message></Error>`;
    return { status, body };
  }
  const message = reason === 'bucket' ? 'The specified bucket does not exist.' : reason;
  const errors = [{ domain: 'global', reason: reason === 'bucket' ? 'notFound' : reason, message }];
  return { status, body: JSON.stringify({ error: { code: status, message, errors } }, undefined, 1) };
}

function send(response: http.ServerResponse, { status, headers, body = '' }: Answer, method?: string): void {
  const length = status === 204 ? {} : { 'content-length': Buffer.byteLength(body) };
  response.writeHead(status, { ...headers, ...length });
  response.end(method === 'HEAD' ? undefined : body);
}
