// An S3 server in memory: whole requests and whole answers, each atomic. Puts obey their conditions.
import { hash } from 'node:crypto';

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export interface Response {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: Buffer;
}

export interface StoredObject {
  readonly body: Buffer;
  readonly meta: Readonly<Record<string, string>>;
  readonly etag: string;
  readonly modifiedMs: number;
}

interface Upload {
  readonly key: string;
  readonly meta: Readonly<Record<string, string>>;
  readonly parts: Map<number, Buffer>;
}

export type OnChange = (key: string, object: StoredObject | undefined) => void;

interface S3ServerOptions {
  readonly nowMs: () => number;
  readonly onChange: OnChange;
  /** False for a server that ignores If-Match. */
  readonly honoursIfMatch: boolean;
}

interface CopiedPart {
  readonly source: string;
  readonly headers: Request['headers'];
}

const META = 'x-amz-meta-';
const PAGE = 1000;

export class S3Server {
  readonly objects = new Map<string, StoredObject>();
  readonly uploads = new Map<string, Upload>();
  readonly #nowMs: () => number;
  readonly #onChange: OnChange;
  readonly #honoursIfMatch: boolean;
  #lastUpload = 0;

  constructor({ nowMs, onChange, honoursIfMatch }: S3ServerOptions) {
    this.#nowMs = nowMs;
    this.#onChange = onChange;
    this.#honoursIfMatch = honoursIfMatch;
  }

  handle(request: Request): Response {
    const [path = '', search = ''] = request.path.split('?');
    const key = decodeURIComponent(path.split('/').slice(2).join('/'));
    const query = new URLSearchParams(search);
    if (key === '') return query.has('uploads') ? this.#listUploads(query) : this.#list(query);
    if (query.has('uploads') || query.has('uploadId')) return this.#multipart(request, key, query);
    switch (request.method) {
      case 'PUT':
        return this.#put(request, key);
      case 'GET':
      case 'HEAD':
        return this.#get(request, key);
      case 'DELETE':
        if (this.objects.delete(key)) this.#onChange(key, undefined);
        return answer(204);
      default:
        return refusal(405, 'MethodNotAllowed');
    }
  }

  #put({ headers, body }: Request, key: string): Response {
    const refused = this.#refusedBy(headers, key);
    if (refused !== undefined) return refused;
    const source = headers['x-amz-copy-source'];
    if (source === undefined) return answer(200, { etag: this.#store(key, body, metaOf(headers)) });
    const from = this.#sourceOf(source);
    if (from === undefined) return refusal(404, 'NoSuchKey');
    const expected = headers['x-amz-copy-source-if-match'];
    if (expected !== undefined && expected !== from.etag) return refusal(412, 'PreconditionFailed');
    const etag = this.#store(key, from.body, from.meta);
    return xml(200, `<CopyObjectResult><ETag>${etag}</ETag></CopyObjectResult>`);
  }

  /** `source`: bucket and key. */
  #sourceOf(source: string): StoredObject | undefined {
    const words = decodeURIComponent(source).split('/');
    return this.objects.get(words.slice(source.startsWith('/') ? 2 : 1).join('/'));
  }

  #refusedBy(headers: Request['headers'], key: string): Response | undefined {
    const there = this.objects.get(key);
    if (headers['if-none-match'] === '*' && there !== undefined) return refusal(412, 'PreconditionFailed');
    const match = headers['if-match'];
    if (match === undefined || !this.#honoursIfMatch) return undefined;
    if (there === undefined) return refusal(404, 'NoSuchKey');
    return there.etag === match ? undefined : refusal(412, 'PreconditionFailed');
  }

  #store(key: string, body: Buffer, meta: StoredObject['meta'], etag = etagOf(body)): string {
    const object = { body, meta, etag, modifiedMs: this.#nowMs() };
    this.objects.set(key, object);
    this.#onChange(key, object);
    return etag;
  }

  #get({ method, headers }: Request, key: string): Response {
    const object = this.objects.get(key);
    if (object === undefined) return method === 'HEAD' ? answer(404) : refusal(404, 'NoSuchKey');
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers['range'] ?? '') ?? [];
    const { length } = object.body;
    if (first !== undefined && Number(first) >= length) return refusal(416, 'InvalidRange');
    const part = first === undefined ? object.body : object.body.subarray(Number(first), Number(last) + 1);
    const described: Record<string, string> = {
      etag: object.etag,
      'content-length': String(part.length),
      'last-modified': new Date(object.modifiedMs).toUTCString(),
    };
    if (first !== undefined) described['content-range'] = `bytes ${first}-${last}/${length}`;
    for (const [name, value] of Object.entries(object.meta)) described[META + name] = value;
    const status = first === undefined ? 200 : 206;
    return { status, headers: described, body: method === 'HEAD' ? Buffer.alloc(0) : part };
  }

  #list(query: URLSearchParams): Response {
    const prefix = query.get('prefix') ?? '';
    const after = query.get('continuation-token') ?? '';
    const keys = [...this.objects.keys()].filter((key) => key.startsWith(prefix) && key > after).toSorted();
    if (query.get('delimiter') === '/') {
      const folders = keys.flatMap((key) => {
        const cut = key.indexOf('/', prefix.length);
        return cut === -1 ? [] : [key.slice(0, cut + 1)];
      });
      const found = [...new Set(folders)].map(
        (name) => `<CommonPrefixes><Prefix>${encodeURIComponent(name)}</Prefix></CommonPrefixes>`,
      );
      return xml(
        200,
        `<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>${found.join('')}</ListBucketResult>`,
      );
    }
    const page = keys.slice(0, PAGE);
    const contents = page.map((key) => {
      const { body, etag, modifiedMs } = this.objects.get(key) as StoredObject;
      const time = new Date(modifiedMs).toISOString();
      return `<Contents><Key>${encodeURIComponent(key)}</Key><LastModified>${time}</LastModified><ETag>${etag.replaceAll('"', '&quot;')}</ETag><Size>${body.length}</Size></Contents>`;
    });
    const isTruncated = keys.length > page.length;
    const next = isTruncated ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : '';
    return xml(
      200,
      `<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>${isTruncated}</IsTruncated>${next}${contents.join('')}</ListBucketResult>`,
    );
  }

  #listUploads(query: URLSearchParams): Response {
    const prefix = query.get('prefix') ?? '';
    const found = [...this.uploads].filter(([, { key }]) => key.startsWith(prefix));
    const told = found.map(
      ([id, { key }]) => `<Upload><Key>${encodeURIComponent(key)}</Key><UploadId>${id}</UploadId></Upload>`,
    );
    return xml(
      200,
      `<ListMultipartUploadsResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>${told.join('')}</ListMultipartUploadsResult>`,
    );
  }

  #multipart({ method, headers, body }: Request, key: string, query: URLSearchParams): Response {
    if (method === 'POST' && query.has('uploads')) {
      const id = `upload-${(this.#lastUpload += 1)}`;
      this.uploads.set(id, { key, meta: metaOf(headers), parts: new Map() });
      return xml(
        200,
        `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
      );
    }
    const id = query.get('uploadId') ?? '';
    const upload = this.uploads.get(id);
    if (upload === undefined) return refusal(404, 'NoSuchUpload');
    if (method === 'PUT') {
      const number = Number(query.get('partNumber'));
      const source = headers['x-amz-copy-source'];
      if (source !== undefined) return this.#copyPart(upload, number, { source, headers });
      upload.parts.set(number, body);
      return answer(200, { etag: etagOf(body) });
    }
    if (method === 'DELETE') {
      this.uploads.delete(id);
      return answer(204);
    }
    const refused = this.#refusedBy(headers, key);
    if (refused !== undefined) return refused;
    const numbers = [...upload.parts.keys()].toSorted((a, b) => a - b);
    const whole = Buffer.concat(numbers.map((number) => upload.parts.get(number) as Buffer));
    this.uploads.delete(id);
    const etag = this.#store(key, whole, upload.meta, `${etagOf(whole).slice(0, -1)}-${numbers.length}"`);
    return xml(200, `<CompleteMultipartUploadResult><ETag>${etag}</ETag></CompleteMultipartUploadResult>`);
  }

  #copyPart(upload: Upload, number: number, { source, headers }: CopiedPart): Response {
    const from = this.#sourceOf(source);
    if (from === undefined) return refusal(404, 'NoSuchKey');
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers['x-amz-copy-source-range'] ?? '') ?? [];
    const body = from.body.subarray(Number(first ?? 0), last === undefined ? undefined : Number(last) + 1);
    upload.parts.set(number, body);
    return xml(200, `<CopyPartResult><ETag>${etagOf(body)}</ETag></CopyPartResult>`);
  }
}

function metaOf(headers: Request['headers']): Record<string, string> {
  const named = Object.entries(headers).filter(([name]) => name.startsWith(META));
  return Object.fromEntries(named.map(([name, value]) => [name.slice(META.length), value]));
}

function etagOf(body: Buffer): string {
  return `"${hash('md5', body)}"`;
}

function answer(status: number, headers: Record<string, string> = {}): Response {
  return { status, headers: { 'content-length': '0', ...headers }, body: Buffer.alloc(0) };
}

function xml(status: number, text: string): Response {
  const body = Buffer.from(`<?xml version="1.0"?>${text}`);
  return { status, headers: { 'content-length': String(body.length) }, body };
}

function refusal(status: number, code: string): Response {
  return xml(status, `<Error><Code>${code}</Code></Error>`);
}
