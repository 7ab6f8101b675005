// azurite, Microsoft's emulator of Azure Blob Storage, behind a relay that fails on request and remembers what was visible.
// The relay also does Put Block From URL, which azurite does not know.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import http, { type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo, Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { BlobServiceClient, type ContainerClient } from '@azure/storage-blob';

export type AzureOperation =
  | 'DeleteBlob'
  | 'CopyBlobFromURL'
  | 'PutBlob'
  | 'PutBlock'
  | 'PutBlockFromURL'
  | 'PutBlockList'
  | 'GetBlob'
  | 'GetBlobProperties'
  | 'ListBlobs'
  | 'GetAccountInformation';

export interface Incoming {
  readonly operation: AzureOperation;
  /** In the container; empty for the container itself. */
  readonly key: string;
  /** From 1, among those of this operation. */
  readonly nth: number;
  readonly headers: IncomingHttpHeaders;
}

export type AzureFault =
  /** Answers this without doing the work. */
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly code?: string;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    }
  /** Does the work, then drops the connection. */
  | { readonly kind: 'lose-answer' }
  /** Drops the connection, and does the work only when `late()` is called. */
  | { readonly kind: 'late' }
  /** Changes the body on its way to the server. */
  | { readonly kind: 'damage' }
  /** Takes the request and never answers. */
  | { readonly kind: 'stall' }
  /** Waits before the work. */
  | { readonly kind: 'delay'; readonly until: Promise<unknown> }
  /** Sends the body of the answer in this many pieces, one every `everyMs`. */
  | { readonly kind: 'slow'; readonly pieces: number; readonly everyMs: number }
  /** Breaks the connection in the middle of the answer. */
  | { readonly kind: 'cut' };

export interface AzureServer {
  /** `az://devstoreaccount1/lab` */
  readonly url: string;
  readonly env: Readonly<Record<string, string>>;
  /** For what no driver does. */
  readonly container: ContainerClient;
  readonly served: Incoming[];
  fault: ((incoming: Incoming) => AzureFault | undefined) | undefined;
  keys(): readonly string[];
  /** All that had an object at some time. */
  everUsed(): readonly string[];
  /** What was ever visible under a key; undefined: deleted. */
  versions(key: string): readonly (Buffer | undefined)[];
  /** Lets the requests arrive that were late. Resolves to their statuses. */
  late(): Promise<readonly number[]>;
  /** Kills azurite, and starts another one at the same address, which holds nothing but the container. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

const MAIN = createRequire(import.meta.url).resolve('azurite/dist/src/blob/main.js');
const ACCOUNT = 'devstoreaccount1';
const CONTAINER = 'lab';
/** Of the emulator, and public: Microsoft Learn, "Use the Azurite emulator". */
const KEY = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==';

interface Azurite {
  readonly port: number;
  readonly child: ChildProcess;
}

async function startAzurite(): Promise<Azurite> {
  const options = ['--blobPort', '0', '--silent', '--inMemoryPersistence', '--skipApiVersionCheck'];
  const child = spawn(process.execPath, [MAIN, ...options, '--disableTelemetry'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const port = new Promise<number>((resolve, reject) => {
    let said = '';
    child.stdout.on('data', (text) => {
      said += String(text);
      const [, found] = /listens on http:\/\/127\.0\.0\.1:(\d+)/.exec(said) ?? [];
      if (found !== undefined) resolve(Number(found));
    });
    child.once('exit', () => reject(new Error(`azurite did not start: ${said}`)));
  });
  return { port: await port, child };
}

async function end({ child }: Azurite): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

function connectionTo(port: number): string {
  return `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};BlobEndpoint=http://127.0.0.1:${port}/${ACCOUNT};`;
}

function clientOf(port: number): ContainerClient {
  return BlobServiceClient.fromConnectionString(connectionTo(port)).getContainerClient(CONTAINER);
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export async function startAzureServer(): Promise<AzureServer> {
  let azurite = await startAzurite();
  let direct = clientOf(azurite.port);
  await direct.create();
  const held: (() => Promise<number>)[] = [];
  const seen = new Map<string, (Buffer | undefined)[]>();
  const sockets = new Set<Socket>();

  async function note({ operation, key }: Incoming, { status }: Answer): Promise<void> {
    if (status >= 300 || !/^(DeleteBlob|CopyBlobFromURL|PutBlob|PutBlockList)$/.test(operation)) return;
    const bytes = operation === 'DeleteBlob' ? undefined : await direct.getBlobClient(key).downloadToBuffer();
    seen.set(key, [...(seen.get(key) ?? []), bytes]);
  }

  async function work(request: IncomingMessage, incoming: Incoming, body: Buffer): Promise<Answer> {
    const answer =
      incoming.operation === 'PutBlockFromURL'
        ? await blockFromUrl(request, incoming)
        : await send(azurite.port, request, body);
    await note(incoming, answer);
    return answer;
  }

  async function blockFromUrl({ url = '', headers }: IncomingMessage, { key }: Incoming): Promise<Answer> {
    const source = new URL(String(headers['x-ms-copy-source']));
    const range = headers['x-ms-source-range'];
    const got = await fetch(`http://127.0.0.1:${azurite.port}${source.pathname}${source.search}`, {
      headers: {
        'x-ms-version': '2021-08-06',
        ...(range === undefined ? {} : { 'x-ms-range': String(range) }),
      },
    });
    const bytes = Buffer.from(await got.arrayBuffer());
    if (got.status >= 300)
      return { status: got.status, headers: Object.fromEntries(got.headers), body: bytes };
    const id = new URL(url, 'http://localhost').searchParams.get('blockid') ?? '';
    await direct.getBlockBlobClient(key).stageBlock(id, bytes, bytes.length);
    return { status: 201, headers: {}, body: Buffer.alloc(0) };
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    const { operation, key } = described(request);
    const nth = server.served.filter((one) => one.operation === operation).length + 1;
    const incoming = { operation, key, nth, headers: request.headers };
    server.served.push(incoming);
    const fault = server.fault?.(incoming) ?? longSource(request);
    if (fault?.kind === 'stall') return;
    if (fault?.kind === 'delay') await fault.until;
    if (fault?.kind === 'answer') {
      const code = fault.code === undefined ? {} : errorHeaders(fault.code);
      response.writeHead(fault.status, { ...fault.headers, ...code });
      return void response.end(
        fault.code === undefined
          ? fault.body
          : `<?xml version="1.0"?><Error><Code>${fault.code}</Code></Error>`,
      );
    }
    if (fault?.kind === 'late') {
      held.push(async () => (await work(request, incoming, body)).status);
      return void request.socket.destroy();
    }
    if (fault?.kind === 'damage') body[0] = (body[0] ?? 0) ^ 1;
    const answer = await work(request, incoming, body);
    // azurite answers InvalidOperation.
    if (fault?.kind === 'damage' && answer.status === 400) {
      response.writeHead(400, errorHeaders('Md5Mismatch'));
      return void response.end('<?xml version="1.0"?><Error><Code>Md5Mismatch</Code></Error>');
    }
    if (fault?.kind === 'lose-answer') return void request.socket.destroy();
    response.writeHead(answer.status, answer.headers);
    if (fault?.kind === 'slow') return sendSlowly(response, answer.body, fault);
    if (fault?.kind !== 'cut') return void response.end(answer.body);
    response.write(answer.body.subarray(0, answer.body.length / 2), () => request.socket.destroy());
  }

  const relay = http.createServer((request, response) => {
    serve(request, response).catch(() => request.socket.destroy());
  });
  relay.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  relay.listen(0, '127.0.0.1');
  await once(relay, 'listening');
  const server: AzureServer = {
    url: `az://${ACCOUNT}/${CONTAINER}`,
    env: { AZURE_STORAGE_CONNECTION_STRING: connectionTo((relay.address() as AddressInfo).port) },
    get container() {
      return direct;
    },
    served: [],
    fault: undefined,
    keys: () => [...seen].filter(([, all]) => all.at(-1) !== undefined).map(([key]) => key),
    everUsed: () => [...seen.keys()],
    versions: (key) => seen.get(key) ?? [],
    late: async () => {
      const statuses: number[] = [];
      for (const arrive of held.splice(0)) statuses.push(await arrive());
      return statuses;
    },
    restart: async () => {
      await end(azurite);
      seen.clear();
      azurite = await startAzurite();
      direct = clientOf(azurite.port);
      await direct.create();
    },
    stop: async () => {
      relay.close();
      for (const socket of sockets) socket.destroy();
      await once(relay, 'close');
      await end(azurite);
    },
  };
  return server;
}

async function sendSlowly(
  response: ServerResponse,
  body: Buffer,
  { pieces, everyMs }: Extract<AzureFault, { kind: 'slow' }>,
): Promise<void> {
  const size = Math.ceil(body.length / pieces);
  for (let at = 0; at < body.length && !response.destroyed; at += size) {
    response.write(body.subarray(at, at + size));
    await setTimeout(everyMs);
  }
  response.end();
}

/** Microsoft Learn, "Copy Blob From URL": x-ms-copy-source has up to 2 KiB. azurite takes longer ones. */
function longSource({ headers }: IncomingMessage): AzureFault | undefined {
  return String(headers['x-ms-copy-source'] ?? '').length <= 2048
    ? undefined
    : { kind: 'answer', status: 400, code: 'InvalidHeaderValue' };
}

function described({ method, url = '', headers }: IncomingMessage): Pick<Incoming, 'operation' | 'key'> {
  const { pathname, searchParams } = new URL(url, 'http://localhost');
  const key = decodeURIComponent(pathname.split('/').slice(3).join('/'));
  const comp = searchParams.get('comp');
  if (comp === 'list') return { operation: 'ListBlobs', key };
  if (comp === 'properties') return { operation: 'GetAccountInformation', key };
  const hasSource = headers['x-ms-copy-source'] !== undefined;
  if (comp === 'blocklist') return { operation: 'PutBlockList', key };
  if (comp === 'block') return { operation: hasSource ? 'PutBlockFromURL' : 'PutBlock', key };
  const byMethod = {
    DELETE: 'DeleteBlob',
    GET: 'GetBlob',
    HEAD: 'GetBlobProperties',
    PUT: hasSource ? 'CopyBlobFromURL' : 'PutBlob',
  } as const;
  return { operation: byMethod[method as keyof typeof byMethod], key };
}

async function send(
  port: number,
  { method, url, rawHeaders }: IncomingMessage,
  body: Buffer,
): Promise<Answer> {
  const sent = http.request({
    port,
    host: '127.0.0.1',
    method,
    path: url,
    headers: rawHeaders,
    agent: false,
  });
  sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: response.statusCode ?? 0, headers: response.headers, body: await buffer(response) };
}

function errorHeaders(code: string): http.OutgoingHttpHeaders {
  return { 'x-ms-error-code': code, 'content-type': 'application/xml' };
}
