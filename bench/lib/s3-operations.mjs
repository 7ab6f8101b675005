// What the bench's S3 server answers to each operation: what capture, rclone and the aws command line ask for.
import { createHash } from 'node:crypto';

/** The answer to one request; `chunks` is its body. */
export function answerTo(store, request) {
  const { method, key, query } = request;
  const isPart = query.has('uploadId');
  if (key === '') return ofBucket(store, request);
  if (method === 'GET' && !isPart) return read(store, request);
  if (method === 'HEAD') return read(store, request);
  if (method === 'PUT') return isPart ? putPart(store, request) : put(store, request);
  if (method === 'POST' && query.has('uploads')) return begin(store, request);
  if (method === 'POST' && isPart) return complete(store, request);
  if (method === 'DELETE' && isPart) store.uploads.delete(query.get('uploadId'));
  else if (method === 'DELETE') store.remove(key);
  else return error(501, 'NotImplemented');
  return { status: 204 };
}

function ofBucket(store, { method, query, chunks }) {
  if (method === 'POST' && query.has('delete')) {
    for (const [, key] of Buffer.concat(chunks)
      .toString()
      .matchAll(/<Key>([^<]*)<\/Key>/g))
      store.remove(key.replaceAll('&apos;', "'").replaceAll('&amp;', '&'));
    return xml('<DeleteResult></DeleteResult>');
  }
  if (method !== 'GET') return { status: 200 };
  if (query.has('location')) return xml('<LocationConstraint></LocationConstraint>');
  if (query.has('uploads'))
    return xml('<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>');
  return list(store, query);
}

const PAGE = 1000;

/** Both versions of the listing, by pages. A page goes on after the last key, or folder, of the one before. */
function list({ objects, keys }, query) {
  const prefix = query.get('prefix') ?? '';
  const delimiter = query.get('delimiter') ?? '';
  const most = Math.min(PAGE, Number(query.get('max-keys') ?? PAGE));
  const after = ['continuation-token', 'start-after', 'marker'].map((name) => query.get(name)).find(Boolean);
  const rows = [];
  let last = after;
  const next = () => keys.first(prefix, last, delimiter !== '' && last?.endsWith(delimiter) === true);
  let key = next();
  for (; key !== undefined && rows.length < most; key = next()) {
    const end = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length);
    last = end < 0 ? key : key.slice(0, end + 1);
    rows.push(
      end < 0
        ? contentsOf(objects.get(key))
        : `<CommonPrefixes><Prefix>${escaped(last)}</Prefix></CommonPrefixes>`,
    );
  }
  const isTruncated = key !== undefined;
  const from = isTruncated
    ? `<NextContinuationToken>${escaped(last)}</NextContinuationToken><NextMarker>${escaped(last)}</NextMarker>`
    : '';
  return xml(
    `<ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${from}${rows.join('')}</ListBucketResult>`,
  );
}

function contentsOf({ key, sizeBytes, etag, modifiedMs }) {
  const modified = new Date(modifiedMs).toISOString();
  return `<Contents><Key>${escaped(key)}</Key><LastModified>${modified}</LastModified><ETag>${etag}</ETag><Size>${sizeBytes}</Size></Contents>`;
}

function read(store, { key, headers }) {
  const found = store.objects.get(key);
  if (found === undefined) return error(404, 'NoSuchKey');
  const { chunks, etag, meta, modifiedMs } = found;
  const modified = new Date(modifiedMs).toUTCString();
  const more = { ...meta, etag, 'last-modified': modified, 'accept-ranges': 'bytes' };
  const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '') ?? [];
  if (from === undefined)
    return { status: 200, headers: { ...more, 'content-length': found.sizeBytes }, body: chunks };
  const first = Number(from);
  const last = Math.min(to === '' ? Infinity : Number(to), found.sizeBytes - 1);
  if (first > last) return error(416, 'InvalidRange');
  const body = slice(chunks, first, last + 1);
  return {
    status: 206,
    headers: { ...more, 'content-range': `bytes ${first}-${last}/${found.sizeBytes}` },
    body,
  };
}

function put(store, request) {
  const { key, headers } = request;
  const refused = conditionFails(store, request);
  if (refused !== undefined) return refused;
  const from = headers['x-amz-copy-source'];
  if (from === undefined) {
    const chunks = bodyOf(request);
    const etag = etagOf(chunks);
    store.publish(key, { parts: [store.kept(chunks)], etag, meta: metaOf(headers) });
    return { status: 200, headers: { etag } };
  }
  const source = store.objects.get(decodeURIComponent(from).replace(/^\/?[^/]*\//, ''));
  if (source === undefined) return error(404, 'NoSuchKey');
  store.publish(key, { parts: [source], etag: source.etag, meta: metaOf(headers) });
  return xml(`<CopyObjectResult><ETag>${source.etag}</ETag></CopyObjectResult>`);
}

function begin(store, { key, headers }) {
  const id = `upload-${store.uploads.size + 1}-${key.length}-${performance.now()}`;
  store.uploads.set(id, { key, meta: metaOf(headers), parts: new Map() });
  return xml(
    `<InitiateMultipartUploadResult><UploadId>${id}</UploadId><Key>${escaped(key)}</Key></InitiateMultipartUploadResult>`,
  );
}

function putPart(store, request) {
  const upload = store.uploads.get(request.query.get('uploadId'));
  if (upload === undefined) return error(404, 'NoSuchUpload');
  const chunks = bodyOf(request);
  const etag = etagOf(chunks);
  upload.parts.set(Number(request.query.get('partNumber')), { ...store.kept(chunks), etag });
  // As Amazon's says it again, once it has checked it.
  const sum = request.headers['x-amz-checksum-crc32'];
  return { status: 200, headers: sum === undefined ? { etag } : { etag, 'x-amz-checksum-crc32': sum } };
}

function complete(store, request) {
  const id = request.query.get('uploadId');
  const upload = store.uploads.get(id);
  if (upload === undefined) return error(404, 'NoSuchUpload');
  const refused = conditionFails(store, request);
  if (refused !== undefined) return refused;
  const listed = [
    ...Buffer.concat(request.chunks)
      .toString()
      .matchAll(/<PartNumber>(\d+)</g),
  ];
  const parts = listed.map(([, number]) => upload.parts.get(Number(number)));
  if (parts.includes(undefined)) return error(400, 'InvalidPart');
  const hash = createHash('md5');
  for (const { etag } of parts) hash.update(etag.slice(1, -1), 'hex');
  const etag = `"${hash.digest('hex')}-${parts.length}"`;
  store.publish(upload.key, { parts, etag, meta: upload.meta });
  store.uploads.delete(id);
  return xml(`<CompleteMultipartUploadResult><ETag>${etag}</ETag></CompleteMultipartUploadResult>`);
}

function conditionFails(store, { key, headers }) {
  const taken = headers['if-none-match'] !== undefined && store.objects.has(key);
  return taken ? error(412, 'PreconditionFailed') : undefined;
}

function etagOf(chunks) {
  const hash = createHash('md5');
  for (const chunk of chunks) hash.update(chunk);
  return `"${hash.digest('hex')}"`;
}

/** Without the framing that the AWS tools put around a body whose hash comes last. */
function bodyOf({ headers, chunks }) {
  if (!String(headers['content-encoding']).includes('aws-chunked')) return chunks;
  const bytes = Buffer.concat(chunks);
  const found = [];
  for (let at = 0; ;) {
    const end = bytes.indexOf('\r\n', at);
    const sizeBytes = Number.parseInt(bytes.toString('latin1', at, end), 16);
    if (end < 0 || sizeBytes === 0) return found;
    found.push(bytes.subarray(end + 2, end + 2 + sizeBytes));
    at = end + 2 + sizeBytes + 2;
  }
}

function slice(chunks, from, to) {
  const found = [];
  let at = 0;
  for (const chunk of chunks) {
    if (at < to && at + chunk.length > from) found.push(chunk.subarray(Math.max(0, from - at), to - at));
    at += chunk.length;
  }
  return found;
}

function metaOf(headers) {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('x-amz-meta-')));
}

function xml(content) {
  return {
    status: 200,
    headers: { 'content-type': 'application/xml' },
    body: [Buffer.from(`<?xml version="1.0" encoding="UTF-8"?>${content}`)],
  };
}

function error(status, code) {
  return { ...xml(`<Error><Code>${code}</Code><Message>${code}</Message></Error>`), status };
}

function escaped(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
