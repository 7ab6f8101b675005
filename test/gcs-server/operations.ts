// The requests of the test server, as Google documents them: objects by the XML API, the rest by the JSON API
// (https://docs.cloud.google.com/storage/docs/xml-api/overview, and docs/json_api/v1).
import { createHash, randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { GcsRefusal, type Objects, type StoredObject } from './objects.ts';

export type Operation =
  | 'get'
  | 'head'
  | 'put'
  | 'list'
  | 'delete'
  | 'rewrite'
  | 'begin-upload'
  | 'upload'
  | 'ask-upload';

/** A request that was understood. `other` is the target of a rewrite. */
export interface Asked {
  readonly operation: Operation;
  readonly bucket: string;
  readonly key: string;
  readonly other?: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
}

export interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

/** How a server may differ. */
export interface Ways {
  readonly pageSize: number;
  /** Requests that a rewrite takes. */
  readonly rewriteCalls: number;
  /** The bytes that it takes of a request of an upload. */
  readonly taken: (sent: Buffer) => Buffer;
  readonly origin: string;
}

const UNIT_BYTES = 256 * 1024;
const OF_OBJECTS =
  /^\/(upload\/)?storage\/v1\/b\/([^/]+)\/o(?:\/([^/]+)(?:\/rewriteTo\/b\/[^/]+\/o\/([^/]+))?)?$/;

export function askedBy(method: string, url: string, headers: IncomingHttpHeaders): Asked {
  const target = new URL(url, 'http://localhost');
  const query = target.searchParams;
  const match = OF_OBJECTS.exec(target.pathname);
  if (match === null) {
    const [, bucket = '', ...path] = target.pathname.split('/').map(decodeURIComponent);
    const operation = ({ GET: 'get', HEAD: 'head', PUT: 'put' } as const)[method];
    if (operation === undefined) throw new GcsRefusal(405, 'MethodNotAllowed');
    return { operation, bucket, key: path.join('/'), query, headers };
  }
  const [, upload, bucket = '', name, to] = match;
  const key = name === undefined ? (query.get('name') ?? '') : decodeURIComponent(name);
  const asked = { bucket, key, query, headers };
  if (upload !== undefined && method === 'POST') return { ...asked, operation: 'begin-upload' };
  if (upload !== undefined)
    return {
      ...asked,
      operation: headers['content-range']?.endsWith('*/*') === true ? 'ask-upload' : 'upload',
    };
  if (method === 'POST' && to !== undefined)
    return { ...asked, operation: 'rewrite', other: decodeURIComponent(to) };
  if (method === 'DELETE') return { ...asked, operation: 'delete' };
  if (method === 'GET' && name === undefined) return { ...asked, operation: 'list' };
  throw new GcsRefusal(405, 'methodNotAllowed');
}

export function perform(objects: Objects, asked: Asked, body: Buffer, ways: Ways): Answer {
  switch (asked.operation) {
    case 'get':
    case 'head':
      return got(objects, asked);
    case 'put':
      return put(objects, asked, body);
    case 'list':
      return json(listed(objects, asked, ways.pageSize));
    case 'delete':
      objects.delete(asked.key, asked.query.get('ifGenerationMatch'));
      return { status: 204 };
    case 'rewrite':
      return json(rewritten(objects, asked, ways.rewriteCalls));
    case 'begin-upload':
      return begun(objects, asked, body, ways.origin);
    case 'upload':
    case 'ask-upload':
      return uploaded(objects, asked, body, ways);
  }
}

function got(objects: Objects, { key, headers }: Asked): Answer {
  const object = objects.current(key);
  if (object === undefined) throw new GcsRefusal(404, 'NoSuchKey');
  const told = {
    ...describe(object),
    ...Object.fromEntries(Object.entries(object.meta).map(([name, value]) => [`x-goog-meta-${name}`, value])),
    ...(object.cacheControl === undefined ? {} : { 'cache-control': object.cacheControl }),
    'last-modified': new Date(object.atMs).toUTCString(),
    etag: `"${object.generation}"`,
  };
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
  if (first === undefined) return { status: 200, headers: told, body: object.bytes };
  const size = object.bytes.length;
  if (Number(first) >= size) throw new GcsRefusal(416, 'InvalidRange');
  const end = Math.min(Number(last) + 1, size);
  const range = { 'content-range': `bytes ${first}-${end - 1}/${size}` };
  return { status: 206, headers: { ...told, ...range }, body: object.bytes.subarray(Number(first), end) };
}

/** A checksum that is not looked at stands beside the md5, as Google's servers send it. */
function describe({ generation, md5 }: StoredObject): Record<string, string> {
  return { 'x-goog-generation': generation, 'x-goog-hash': `crc32c=AAAAAA==,md5=${md5}` };
}

function put(objects: Objects, { key, headers }: Asked, bytes: Buffer): Answer {
  checkSum(headers, bytes);
  const meta = Object.fromEntries(
    Object.entries(headers)
      .filter(([name]) => name.startsWith('x-goog-meta-'))
      .map(([name, value]) => [name.slice('x-goog-meta-'.length), String(value)]),
  );
  const condition = headers['x-goog-if-generation-match'];
  const object = { bytes, meta, cacheControl: headers['cache-control'] };
  return { status: 200, headers: describe(objects.put(key, object, condition?.toString())) };
}

function checkSum(headers: IncomingHttpHeaders, bytes: Buffer): void {
  const told = /md5=([^,]+)/.exec(String(headers['x-goog-hash'] ?? ''))?.[1];
  if (told !== undefined && told !== createHash('md5').update(bytes).digest('base64'))
    throw new GcsRefusal(400, 'BadDigest');
}

function listed(objects: Objects, { query }: Asked, pageSize: number): unknown {
  const prefix = query.get('prefix') ?? '';
  const delimiter = query.get('delimiter') ?? '';
  const after = Buffer.from(query.get('pageToken') ?? '', 'base64');
  const most = Math.min(pageSize, Number(query.get('maxResults') ?? 1000));
  const entries = new Map<string, StoredObject | undefined>();
  for (const key of objects.keys()) {
    if (!key.startsWith(prefix)) continue;
    const end = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length);
    if (end < 0) entries.set(key, objects.current(key));
    else entries.set(key.slice(0, end + 1), undefined);
  }
  const left = [...entries].filter(([name]) => Buffer.compare(Buffer.from(name), after) > 0);
  const page = left.slice(0, most);
  const next = left.length > page.length ? Buffer.from(page.at(-1)?.[0] ?? '').toString('base64') : undefined;
  const items = page.flatMap(([name, object]) => (object === undefined ? [] : [resource(name, object)]));
  const prefixes = page.flatMap(([name, object]) => (object === undefined ? [name] : []));
  return {
    ...(items.length === 0 ? {} : { items }),
    ...(prefixes.length === 0 ? {} : { prefixes }),
    ...(next === undefined ? {} : { nextPageToken: next }),
  };
}

function resource(
  name: string,
  { generation, bytes, md5, atMs, meta }: StoredObject,
): Record<string, unknown> {
  const updated = new Date(atMs).toISOString();
  return {
    kind: 'storage#object',
    name,
    generation,
    size: String(bytes.length),
    md5Hash: md5,
    updated,
    metadata: meta,
  };
}

/** A rewrite token tells how many requests came before. */
function rewritten(objects: Objects, { key, other = '', query }: Asked, calls: number): unknown {
  const source = objects.current(key);
  if (source === undefined) throw new GcsRefusal(404, 'notFound');
  objects.check(key, query.get('ifSourceGenerationMatch'));
  objects.check(other, query.get('ifGenerationMatch'));
  const call = Number(query.get('rewriteToken') ?? 0) + 1;
  if (call < calls) return { kind: 'storage#rewriteResponse', done: false, rewriteToken: String(call) };
  const stored = objects.put(other, source, query.get('ifGenerationMatch'));
  return { kind: 'storage#rewriteResponse', done: true, resource: resource(other, stored) };
}

function begun(objects: Objects, { bucket, key, query }: Asked, body: Buffer, origin: string): Answer {
  if (query.get('uploadType') !== 'resumable') throw new GcsRefusal(400, 'invalid');
  const { metadata = {}, cacheControl } = JSON.parse(body.toString()) as {
    metadata?: Record<string, string>;
    cacheControl?: string;
  };
  const id = randomUUID();
  const ifGeneration = query.get('ifGenerationMatch');
  objects.uploads.set(id, { key, meta: metadata, cacheControl, ifGeneration, bytes: Buffer.alloc(0) });
  const location = `${origin}/upload/storage/v1/b/${bucket}/o?uploadType=resumable&upload_id=${id}`;
  return { status: 200, headers: { location } };
}

/** The condition of an upload is looked at when its last byte has come. */
function uploaded(objects: Objects, { query, headers }: Asked, body: Buffer, { taken }: Ways): Answer {
  const upload = objects.uploads.get(query.get('upload_id') ?? '');
  if (upload === undefined) throw new GcsRefusal(404, 'notFound');
  const [, first, last, total = '*'] =
    /^bytes (?:(\d+)-(\d+)|\*)\/(\d+|\*)$/.exec(headers['content-range'] ?? '') ?? [];
  // Whoever does not know the end asks for it.
  if (upload.done !== undefined && first !== undefined) throw new GcsRefusal(400, 'invalid');
  if (first !== undefined) {
    if (Number(last) - Number(first) + 1 !== body.length) throw new GcsRefusal(400, 'invalid');
    if (total === '*' && body.length % UNIT_BYTES !== 0) throw new GcsRefusal(400, 'invalid');
    if (Number(first) > upload.bytes.length) throw new GcsRefusal(503, 'backendError');
    // Bytes that it has already are ignored.
    const sent = taken(body.subarray(upload.bytes.length - Number(first)));
    upload.bytes = Buffer.concat([upload.bytes, sent]);
  }
  if (upload.done === undefined && total !== '*' && upload.bytes.length === Number(total)) {
    const { key, bytes, meta, cacheControl, ifGeneration } = upload;
    upload.done = objects.put(key, { bytes, meta, cacheControl }, ifGeneration);
  }
  if (upload.done !== undefined) return json(resource(upload.key, upload.done));
  const held: Record<string, string> =
    upload.bytes.length === 0 ? {} : { range: `bytes=0-${upload.bytes.length - 1}` };
  return { status: 308, headers: held };
}

function json(value: unknown): Answer {
  return { status: 200, headers: { 'content-type': 'application/json' }, body: JSON.stringify(value) };
}
