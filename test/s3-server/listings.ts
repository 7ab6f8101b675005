// The two listings of the test server: pages of at most 1,000, in byte order, keys encoded on request.
import { S3Refusal, tag, urlEncode, xml, type Answer } from './answers.ts';
import type { Objects } from './objects.ts';

interface ListingRequest {
  readonly bucket: string;
  readonly query: URLSearchParams;
}

export function listObjects(objects: Objects, { bucket, query }: ListingRequest): Answer {
  const encode = query.get('encoding-type') === 'url' ? urlEncode : String;
  const prefix = query.get('prefix') ?? '';
  const after =
    Buffer.from(query.get('continuation-token') ?? '', 'base64').toString() ||
    (query.get('start-after') ?? '');
  const most = Math.min(1000, Number(query.get('max-keys') ?? 1000));
  if (objects.isDirectory) checkDirectoryListing(query);
  const matching = objects
    .keys()
    .filter(
      (key) =>
        key.startsWith(prefix) && (after === '' || Buffer.compare(Buffer.from(key), Buffer.from(after)) > 0),
    );
  const [plain, inOrder] = rolledUp(matching, prefix, query.get('delimiter') ?? '');
  const page = plain.slice(0, most);
  const folders = objects.isDirectory ? inOrder.toReversed() : inOrder;
  const isTruncated = plain.length > page.length;
  const common = folders.map((folder) => `<CommonPrefixes>${tag('Prefix', encode(folder))}</CommonPrefixes>`);
  const shown = objects.isDirectory ? page.toReversed() : page;
  const contents = shown.map((key) => {
    const { sizeBytes, etag, atMs } = objects.current(key) ?? { sizeBytes: 0, etag: '', atMs: 0 };
    const modified = tag('LastModified', new Date(atMs).toISOString());
    return `<Contents>${tag('Key', encode(key))}${modified}${tag('ETag', etag)}${tag('Size', sizeBytes)}</Contents>`;
  });
  const token = isTruncated
    ? tag('NextContinuationToken', Buffer.from(page.at(-1) ?? '').toString('base64'))
    : '';
  const facts =
    tag('Name', bucket) + tag('Prefix', encode(prefix)) + tag('KeyCount', page.length) + tag('MaxKeys', most);
  return xml(
    'ListBucketResult',
    `${encodingOf(query)}${facts}${tag('IsTruncated', isTruncated)}${token}${contents.join('')}${common.join('')}`,
  );
}

/** As the request asks for it, and as the page then says. */
function encodingOf(query: URLSearchParams): string {
  return query.get('encoding-type') === 'url' ? tag('EncodingType', 'url') : '';
}

/** What Amazon does not take there (API reference of ListObjectsV2 and ListMultipartUploads, "Directory buckets"). */
function checkDirectoryListing(query: URLSearchParams): void {
  const prefix = query.get('prefix') ?? '';
  const isWhole = prefix === '' || prefix.endsWith('/');
  if (!isWhole || query.has('start-after') || query.has('upload-id-marker'))
    throw new S3Refusal(400, 'InvalidRequest');
}

/** Keys with a delimiter behind the prefix are shown by their beginning, once. */
function rolledUp(
  keys: readonly string[],
  prefix: string,
  delimiter: string,
): readonly [readonly string[], readonly string[]] {
  if (delimiter === '') return [keys, []];
  const endOf = (key: string): number => key.indexOf(delimiter, prefix.length);
  const folders = keys.filter((key) => endOf(key) >= 0).map((key) => key.slice(0, endOf(key) + 1));
  return [keys.filter((key) => endOf(key) < 0), [...new Set(folders)]];
}

export function listUploads(objects: Objects, { bucket, query }: ListingRequest): Answer {
  const encode = query.get('encoding-type') === 'url' ? urlEncode : String;
  const prefix = query.get('prefix') ?? '';
  if (objects.isDirectory) checkDirectoryListing(query);
  const after = [query.get('key-marker') ?? '', query.get('upload-id-marker') ?? ''] as const;
  const most = Math.min(1000, Number(query.get('max-uploads') ?? 1000));
  const matching = [...objects.uploads.values()]
    .filter(
      ({ key, id }) => key.startsWith(prefix) && (key > after[0] || (key === after[0] && id > after[1])),
    )
    .toSorted((a, b) => (a.key === b.key ? (a.id < b.id ? -1 : 1) : a.key < b.key ? -1 : 1));
  const page = matching.slice(0, most);
  const last = page.at(-1);
  const isTruncated = matching.length > page.length;
  const next =
    isTruncated && last !== undefined
      ? tag('NextKeyMarker', encode(last.key)) +
        (objects.isDirectory ? '' : tag('NextUploadIdMarker', last.id))
      : '';
  const uploads = page.map(
    ({ key, id }) => `<Upload>${tag('Key', encode(key))}${tag('UploadId', id)}</Upload>`,
  );
  return xml(
    'ListMultipartUploadsResult',
    `${encodingOf(query)}${tag('Bucket', bucket)}${tag('IsTruncated', isTruncated)}${next}${uploads.join('')}`,
  );
}
