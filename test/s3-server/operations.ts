// The S3 operations of the test server, each as strict as Amazon's. A request is one operation by its method
// and query, as in the S3 API reference.
import type { IncomingHttpHeaders } from 'node:http';
import zlib from 'node:zlib';
import { S3Refusal, tag, textsOf, xml, type Answer } from './answers.ts';
import { listObjects, listUploads } from './listings.ts';
import { etagOf, type Meta, type Objects, type Visible } from './objects.ts';

export interface S3Request {
  readonly operation: Operation;
  readonly method: string;
  readonly bucket: string;
  readonly key: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Act as servers do that do not know If-None-Match. */
  readonly ignoreCondition: boolean;
  readonly ifMatch: IfMatch;
  readonly checksums: Checksums;
}

/** Amazon's checks the sums of parts and says them again; others do not know them, or refuse an upload that asks for them. */
export type Checksums = 'checked' | 'repeated' | 'unknown' | 'refused';

/**
 * What the server does with If-Match: Amazon's honours it, also on completions and copies. Ceph RGW 16 honours an ETag
 * without quotes (`bare`) on a put alone, and refuses one with quotes. One that refuses all, and one that knows none.
 */
export type IfMatch = 'honoured' | 'bare' | 'refused' | 'ignored';

type Handler = (objects: Objects, request: S3Request) => Answer;

const HANDLERS = {
  PutObject: putObject,
  CopyObject: copyObject,
  GetObject: (objects, request) => read(objects, request, true),
  HeadObject: (objects, request) => read(objects, request, false),
  DeleteObject: (objects, { key }) => {
    objects.remove(key);
    return { status: 204 };
  },
  DeleteObjects: deleteObjects,
  ListObjectsV2: listObjects,
  CreateMultipartUpload: (objects, { bucket, key, headers, checksums }) => {
    if (checksums === 'refused' && headers['x-amz-checksum-algorithm'] !== undefined)
      throw new S3Refusal(400, 'InvalidArgument');
    const { id } = objects.begin(key, metaOf(headers));
    return xml(
      'InitiateMultipartUploadResult',
      tag('Bucket', bucket) + tag('Key', key) + tag('UploadId', id),
    );
  },
  UploadPart: (objects, request) => {
    const etag = addPart(objects, request, request.body);
    return { status: 200, headers: { etag, ...sumOf(request) } };
  },
  UploadPartCopy: uploadPartCopy,
  CompleteMultipartUpload: complete,
  AbortMultipartUpload: (objects, request) => {
    objects.uploads.delete(uploadOf(objects, request).id);
    return { status: 204 };
  },
  ListParts: (objects, request) => {
    const parts = [...uploadOf(objects, request).parts].toSorted(([a], [b]) => a - b);
    const listed = parts.map(
      ([number, { etag, bytes }]) =>
        `<Part>${tag('PartNumber', number)}${tag('ETag', etag)}${tag('Size', bytes.length)}</Part>`,
    );
    return xml('ListPartsResult', listed.join(''));
  },
  ListMultipartUploads: listUploads,
  CreateSession: () => xml('CreateSessionResult', ''),
} as const satisfies Record<string, Handler>;

export type Operation = keyof typeof HANDLERS;

/** Which operation a request is; throws NotImplemented for one that this server does not have. */
export function operationOf(
  method: string,
  key: string,
  query: URLSearchParams,
  headers: IncomingHttpHeaders,
): Operation {
  const copies = headers['x-amz-copy-source'] !== undefined;
  const isPart = query.has('uploadId');
  if (key === '') {
    if (method === 'GET' && query.has('uploads')) return 'ListMultipartUploads';
    if (method === 'GET' && query.get('list-type') === '2') return 'ListObjectsV2';
    if (method === 'POST' && query.has('delete')) return 'DeleteObjects';
    if (method === 'GET' && query.has('session')) return 'CreateSession';
  } else {
    if (method === 'PUT')
      return isPart ? (copies ? 'UploadPartCopy' : 'UploadPart') : copies ? 'CopyObject' : 'PutObject';
    if (method === 'GET') return isPart ? 'ListParts' : 'GetObject';
    if (method === 'HEAD') return 'HeadObject';
    if (method === 'DELETE') return isPart ? 'AbortMultipartUpload' : 'DeleteObject';
    if (method === 'POST' && query.has('uploads')) return 'CreateMultipartUpload';
    if (method === 'POST' && isPart) return 'CompleteMultipartUpload';
  }
  throw new S3Refusal(501, 'NotImplemented');
}

/** Does the work of a request. */
export function perform(objects: Objects, request: S3Request): Answer {
  return HANDLERS[request.operation](objects, request);
}

function metaOf(headers: IncomingHttpHeaders): Meta {
  const ours = Object.entries(headers).filter(([name]) => name.startsWith('x-amz-meta-'));
  return Object.fromEntries(ours.map(([name, value]) => [name.slice('x-amz-meta-'.length), String(value)]));
}

function checkCondition(objects: Objects, request: S3Request): void {
  const condition = request.headers['if-none-match'];
  const current = objects.current(request.key);
  checkIfMatch(request, current?.etag);
  if (condition === undefined || request.ignoreCondition) return;
  if (condition !== '*') throw new S3Refusal(501, 'NotImplemented');
  if (current !== undefined) throw new S3Refusal(412, 'PreconditionFailed');
}

function checkIfMatch({ headers, ifMatch, operation }: S3Request, etag: string | undefined): void {
  const wanted = headers['if-match'];
  if (wanted === undefined || ifMatch === 'ignored') return;
  if (ifMatch !== 'honoured') {
    const holds = ifMatch === 'bare' && etag !== undefined && wanted === etag.slice(1, -1);
    if (operation === 'PutObject' && !holds) throw new S3Refusal(412, 'PreconditionFailed');
    return;
  }
  if (etag === undefined) throw new S3Refusal(404, 'NoSuchKey');
  if (wanted !== etag) throw new S3Refusal(412, 'PreconditionFailed');
}

function putObject(objects: Objects, request: S3Request): Answer {
  checkCondition(objects, request);
  return {
    status: 200,
    headers: { etag: objects.publish(request.key, request.body, metaOf(request.headers)) },
  };
}

function sourceOf(objects: Objects, { bucket, headers }: S3Request): Visible {
  const from = decodeURIComponent(String(headers['x-amz-copy-source'])).replace(/^\//, '');
  // Of an access point it is its ARN.
  const holder = bucket.startsWith('arn:') ? `${bucket}/object/` : `${bucket}/`;
  const source = from.startsWith(holder) ? objects.current(from.slice(holder.length)) : undefined;
  if (source === undefined) throw new S3Refusal(404, 'NoSuchKey');
  const wanted = headers['x-amz-copy-source-if-match'];
  if (wanted !== undefined && wanted !== source.etag) throw new S3Refusal(412, 'PreconditionFailed');
  return source;
}

function copyObject(objects: Objects, request: S3Request): Answer {
  const { bytes, meta, etag } = sourceOf(objects, request);
  checkCondition(objects, request);
  const copied = objects.publish(request.key, bytes, meta, etag);
  return xml('CopyObjectResult', tag('ETag', copied) + tag('LastModified', new Date().toISOString()));
}

function sumOf({ headers, body, checksums }: S3Request): Record<string, string> {
  const told = headers['x-amz-checksum-crc32'];
  if (typeof told !== 'string' || checksums === 'unknown' || checksums === 'refused') return {};
  if (checksums === 'repeated') return { 'x-amz-checksum-crc32': told };
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(zlib.crc32(body));
  if (sum.toString('base64') !== told) throw new S3Refusal(400, 'BadDigest');
  return { 'x-amz-checksum-crc32': told };
}

function uploadPartCopy(objects: Objects, request: S3Request): Answer {
  const { bytes } = sourceOf(objects, request);
  const match = /^bytes=(\d+)-(\d+)$/.exec(
    String(request.headers['x-amz-copy-source-range'] ?? `bytes=0-${bytes.length - 1}`),
  );
  if (match === null || Number(match[2]) >= bytes.length) throw new S3Refusal(400, 'InvalidArgument');
  const etag = addPart(objects, request, bytes.subarray(Number(match[1]), Number(match[2]) + 1));
  return xml('CopyPartResult', tag('ETag', etag) + tag('LastModified', new Date().toISOString()));
}

function uploadOf(objects: Objects, { key, query }: S3Request): ReturnType<Objects['upload']> {
  return objects.upload(query.get('uploadId') ?? '', key);
}

function addPart(objects: Objects, request: S3Request, bytes: Buffer): string {
  const number = Number(request.query.get('partNumber'));
  if (!Number.isInteger(number) || number < 1 || number > 10_000) throw new S3Refusal(400, 'InvalidArgument');
  const etag = etagOf(bytes);
  uploadOf(objects, request).parts.set(number, { bytes, etag });
  return etag;
}

function complete(objects: Objects, request: S3Request): Answer {
  const upload = uploadOf(objects, request);
  checkCondition(objects, request);
  const text = request.body.toString();
  const etags = textsOf(text, 'ETag');
  const parts = textsOf(text, 'PartNumber').map((number, at) => ({
    number: Number(number),
    etag: etags[at] ?? '',
  }));
  const etag = objects.complete(upload, parts);
  return xml(
    'CompleteMultipartUploadResult',
    tag('Bucket', request.bucket) + tag('Key', request.key) + tag('ETag', etag),
  );
}

function read(objects: Objects, { key, headers }: S3Request, withBody: boolean): Answer {
  const found = objects.current(key);
  if (found === undefined) throw new S3Refusal(404, 'NoSuchKey');
  const { bytes, meta, etag } = found;
  const facts = {
    etag,
    'last-modified': new Date(found.atMs).toUTCString(),
    ...Object.fromEntries(Object.entries(meta).map(([name, value]) => [`x-amz-meta-${name}`, value])),
  };
  const range = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '');
  const first = Number(range?.[1] ?? 0);
  const last = Math.min(range?.[2] ? Number(range[2]) : Infinity, bytes.length - 1);
  if (range !== null && first > last) throw new S3Refusal(416, 'InvalidRange');
  const wanted = bytes.subarray(first, last + 1);
  const length = { ...facts, 'content-length': String(wanted.length) };
  const answer =
    range === null
      ? { status: 200, headers: length }
      : { status: 206, headers: { ...length, 'content-range': `bytes ${first}-${last}/${bytes.length}` } };
  return withBody ? { ...answer, body: wanted } : answer;
}

function deleteObjects(objects: Objects, request: S3Request): Answer {
  if (request.headers['content-md5'] === undefined)
    throw new S3Refusal(400, 'InvalidRequest', 'Content-MD5 is missing');
  const keys = textsOf(request.body.toString(), 'Key');
  if (keys.length === 0 || keys.length > 1000) throw new S3Refusal(400, 'MalformedXML');
  for (const key of keys) objects.remove(key);
  return xml('DeleteResult', keys.map((key) => `<Deleted>${tag('Key', key)}</Deleted>`).join(''));
}
