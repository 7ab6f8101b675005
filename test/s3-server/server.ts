// A strict S3 server for tests, on loopback: it takes what Amazon's takes and refuses what Amazon's refuses,
// keeps every version that was ever visible, and fails on request. Path style only.
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorXml, S3Refusal, tag, xml, type Answer } from './answers.ts';
import { receiveBody, type Fault } from './faults.ts';
import { Objects, type Version } from './objects.ts';
import {
  type Checksums,
  type IfMatch,
  operationOf,
  perform,
  type Operation,
  type S3Request,
} from './operations.ts';
import { verify, type Credentials } from './sigv4.ts';

export interface S3ServerOptions {
  readonly bucket?: string;
  readonly credentials?: readonly Credentials[];
  readonly port?: number;
  /** False: only the newest version of an object keeps its bytes. */
  readonly keepBytes?: boolean;
  /** Default `honoured`. */
  readonly ifMatch?: IfMatch;
  /** A directory bucket: it wants the keys of a session, and lists in no order. */
  readonly isDirectory?: boolean;
  /** With keys of KMS, as requests ask for: an ETag is no md5. */
  readonly isEncrypted?: boolean;
  /** Whoever asks this host means the bucket: the whole path is the key. Requests may come as to a proxy. */
  readonly host?: string;
  /** Serves TLS. */
  readonly tls?: { readonly key: string; readonly cert: string };
}

/** What a fault is chosen by: the request before its body was read. */
export interface Incoming {
  readonly operation: Operation;
  readonly key: string;
  readonly query: URLSearchParams;
  readonly headers: http.IncomingHttpHeaders;
  /** How many requests of this operation came, with this one. */
  readonly nth: number;
}

export interface Served {
  readonly operation: Operation;
  readonly key: string;
  /** 0 when no answer was sent. */
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
}

export interface S3Server {
  readonly url: string;
  readonly bucket: string;
  /** For a process that is to use this server. */
  readonly env: Readonly<Record<string, string>>;
  /** The keys that are known; tests may exchange them. */
  credentials: readonly Credentials[];
  ifMatch: IfMatch;
  /** What it does with the sums of parts; Amazon's way, if nothing is said. */
  checksums: Checksums;
  /** Requests that were cut for the client, in order: each is delivered when it is called. */
  readonly held: (() => void)[];
  /** Asked for each request; undefined is no fault. */
  fault: (incoming: Incoming) => Fault | undefined;
  /** Every request that was served, in order. */
  readonly served: readonly Served[];
  versions(key: string): readonly Version[];
  keys(): readonly string[];
  /** Puts an object there without a request, as if it had been stored at that time. */
  plant(key: string, bytes: Buffer, atMs: number): void;
  /** As a disk does that loses the end of an object: its metadata and ETag stay. */
  cut(key: string, sizeBytes: number): void;
  /** As if it had been restarted on an empty volume. */
  forgetAll(): void;
  /** All sessions have ended; none is told. */
  endSessions(): void;
  /** How many connections it took. */
  connections(): number;
  /** Keys of uploads that were neither completed nor aborted. */
  pendingUploads(): readonly string[];
  stop(): Promise<void>;
}

const DEFAULT_CREDENTIALS: readonly Credentials[] = [
  { accessKeyId: 'AKIATEST', secretAccessKey: 'test-secret' },
  { accessKeyId: 'AKIADENIED', secretAccessKey: 'denied-secret', denied: true },
];

/** Starts a server on a free port of 127.0.0.1. */
export async function startS3Server(options: S3ServerOptions = {}): Promise<S3Server> {
  const bucket = options.bucket ?? 'lab';
  const objects = new Objects(options.keepBytes ?? true, options.isDirectory, options.isEncrypted);
  const sessions: Credentials[] = [];
  const served: Served[] = [];
  const counts = new Map<Operation, number>();
  const listener = (request: http.IncomingMessage, response: http.ServerResponse): void => {
    serve(request, response).catch(() => response.destroy());
  };
  const server =
    options.tls === undefined
      ? http.createServer(listener)
      : (await import('node:https')).createServer(options.tls, listener);
  const sockets = new Set<{ destroy(): void }>();
  server.on('connection', (socket: { destroy(): void }) => sockets.add(socket));
  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');

  async function serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const method = request.method ?? 'GET';
    const target = new URL(request.url ?? '/', 'http://localhost');
    const inHost = options.host !== undefined && request.headers.host === options.host;
    const [, ...parts] = decodeURIComponent(target.pathname).split('/');
    const [name = '', ...path] = inHost ? [bucket, ...parts] : parts;
    const key = path.join('/');
    const query = target.searchParams;
    const { headers } = request;
    let operation: Operation;
    try {
      operation = operationOf(method, key, query, headers);
    } catch (error) {
      request.resume();
      return send(response, method, refusal(error));
    }
    const nth = (counts.get(operation) ?? 0) + 1;
    counts.set(operation, nth);
    const fault = state.fault({ operation, key, query, headers, nth });
    const entry = { operation, key, status: 0, headers };
    served.push(entry);
    const body = await receiveBody(request, fault);
    if (body === undefined || fault?.kind === 'stall') return undefined;
    const work = (): Answer => {
      if (fault?.kind === 'answer')
        return {
          status: fault.status,
          body: fault.body ?? errorXml(fault.code ?? 'Fault'),
          headers: fault.headers,
        };
      const url = (request.url ?? '/').replace(/^http:\/\/[^/]*/, '');
      const isOfSession = options.isDirectory === true && operation !== 'CreateSession';
      verify({ method, url, headers, body }, isOfSession ? sessions : state.credentials);
      if (operation === 'CreateSession') return sessionXml(newSession(sessions));
      if (name !== bucket) throw new S3Refusal(404, 'NoSuchBucket');
      const ignoreCondition = fault?.kind === 'ignore-condition';
      return perform(objects, {
        operation,
        method,
        bucket,
        key,
        query,
        headers: fault?.kind === 'damage' && fault.dropsMeta === true ? withoutMeta(headers) : headers,
        body: fault?.kind === 'damage' ? Buffer.from(body).fill(0, 0, 1) : body,
        ignoreCondition,
        ifMatch: state.ifMatch,
        checksums: state.checksums,
      } satisfies S3Request);
    };
    if (fault?.kind === 'late') {
      state.held.push(() => void answerOf(work));
      if (fault.isSilent !== true) response.destroy();
      return undefined;
    }
    const done = answerOf(work);
    const encrypted = { 'x-amz-server-side-encryption': 'aws:kms' };
    const answer =
      options.isEncrypted === true ? { ...done, headers: { ...done.headers, ...encrypted } } : done;
    if (fault?.kind === 'store-other' && answer.status === 200)
      objects.exchange(key, fault.etag, fault.bytes ?? ((sent) => sent));
    const isLost = fault?.kind === 'lose-answer' || (fault?.kind === 'store-other' && fault.isLost);
    if (isLost === true) return void response.destroy();
    const sent = changed(answer, fault);
    entry.status = sent.status;
    if (fault?.kind === 'cut-answer') return cut(response, sent, fault);
    return send(response, method, sent);
  }

  const { port } = server.address() as AddressInfo;
  const url = `${options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
  const credentials = options.credentials ?? DEFAULT_CREDENTIALS;
  const state: S3Server = {
    url,
    bucket,
    env: {
      AWS_ENDPOINT_URL_S3: url,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: credentials[0]?.accessKeyId ?? '',
      AWS_SECRET_ACCESS_KEY: credentials[0]?.secretAccessKey ?? '',
    },
    credentials,
    ifMatch: options.ifMatch ?? 'honoured',
    checksums: 'checked',
    held: [],
    fault: () => undefined,
    served,
    versions: (key) => objects.versions(key),
    keys: () => objects.keys(),
    plant: (key, bytes, atMs) => objects.plant(key, bytes, atMs),
    cut: (key, sizeBytes) => objects.cut(key, sizeBytes),
    forgetAll: () => objects.clear(),
    endSessions: () => {
      for (const [at, session] of sessions.entries()) sessions[at] = { ...session, expired: true };
    },
    connections: () => sockets.size,
    pendingUploads: () => [...objects.uploads.values()].map((upload) => upload.key),
    stop: async () => {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
  return state;
}

/** It lasts as long as Amazon's. */
const SESSION_MS = 5 * 60_000;

function newSession(sessions: Credentials[]): Credentials {
  const number = sessions.length + 1;
  const session = {
    accessKeyId: `SESSION${number}`,
    secretAccessKey: `secret-${number}`,
    isOfDirectory: true,
  };
  sessions.push({ ...session, sessionToken: `token/${number}+==` });
  return sessions.at(-1) ?? session;
}

function sessionXml({ accessKeyId, secretAccessKey, sessionToken = '' }: Credentials): Answer {
  const expiration = new Date(Date.now() + SESSION_MS).toISOString();
  const credentials =
    tag('SessionToken', sessionToken) +
    tag('SecretAccessKey', secretAccessKey) +
    tag('AccessKeyId', accessKeyId) +
    tag('Expiration', expiration);
  return xml('CreateSessionResult', `<Credentials>${credentials}</Credentials>`);
}

function changed(answer: Answer, fault: Fault | undefined): Answer {
  if (fault?.kind === 'error-after-work') return { status: fault.status, body: errorXml(fault.code) };
  if (fault?.kind === 'add-headers') return { ...answer, headers: { ...answer.headers, ...fault.headers } };
  if (fault?.kind === 'store-other') {
    const headers = { ...answer.headers, ...fault.headers, etag: fault.etag };
    const body = String(answer.body ?? '').replace(/<ETag>[^<]*<\/ETag>/, tag('ETag', fault.etag));
    return { ...answer, headers, body };
  }
  if (fault?.kind !== 'no-etag') return answer;
  const { etag: _, ...headers } = answer.headers ?? {};
  return { ...answer, headers, body: String(answer.body ?? '').replace(/<ETag>[^<]*<\/ETag>/, '') };
}

function withoutMeta(headers: http.IncomingHttpHeaders): http.IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith('x-amz-meta-')));
}

function answerOf(work: () => Answer): Answer {
  try {
    return work();
  } catch (error) {
    return refusal(error);
  }
}

function refusal(error: unknown): Answer {
  if (!(error instanceof S3Refusal)) throw error;
  return { status: error.status, body: errorXml(error.code, error.message) };
}

function send(
  response: http.ServerResponse,
  method: string,
  { status, headers = {}, body = '' }: Answer,
): void {
  const length = headers['content-length'] ?? String(Buffer.byteLength(body));
  response.writeHead(status, {
    server: 'strict-s3',
    ...headers,
    ...(status === 204 ? {} : { 'content-length': length }),
  });
  response.end(method === 'HEAD' ? undefined : body);
}

function cut(
  response: http.ServerResponse,
  { status, headers, body = '' }: Answer,
  { afterBytes, inChunks }: Extract<Fault, { kind: 'cut-answer' }>,
): void {
  const { 'content-length': _, ...rest } = headers ?? {};
  const length = { 'content-length': String(Buffer.byteLength(body)) };
  response.writeHead(status, { ...rest, ...(inChunks === true ? {} : length) });
  response.write(Buffer.from(body).subarray(0, afterBytes), () => response.destroy());
}
