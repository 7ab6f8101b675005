// Reading from S3: HEAD, GET, listings. A body that breaks off must throw, never look complete.
import { Readable } from 'node:stream';
import { GetObjectCommand, HeadObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { reasonOf } from '../../model/errors.ts';
import { releasing } from '../contract/driver.ts';
import {
  StoreError,
  type GetOptions,
  type GotObject,
  type ListedObject,
  type ObjectHead,
} from '../contract/store.ts';
import { request, type Bucket } from './bucket.ts';
import { NotFromS3, promised, type Failure } from './failure.ts';

/** What HEAD says, or undefined when there is no such object. `budgetMs` 0 is one try. */
export async function headObject(
  bucket: Bucket,
  key: string,
  options: { readonly signal?: AbortSignal; readonly budgetMs?: number } = {},
): Promise<ObjectHead | undefined> {
  const found = await request(
    bucket,
    { operation: 'HeadObject', key, ...options, onFailure: absent },
    async (client, http) =>
      anObject(
        await client.send(new HeadObjectCommand({ Bucket: bucket.name, Key: bucket.prefix + key }), http),
      ),
  );
  if (found === 'absent') return undefined;
  return { ...describedBy(found), key, sizeBytes: found.ContentLength ?? 0 };
}

/** The object and its bytes, or undefined when there is none. */
export async function getObject(
  bucket: Bucket,
  key: string,
  options: GetOptions,
): Promise<GotObject | undefined> {
  const { range, signal } = options;
  const found = await request(
    bucket,
    { operation: 'GetObject', key, signal, onFailure: absent },
    async (client, http) =>
      anObject(
        await client.send(
          new GetObjectCommand({
            Bucket: bucket.name,
            Key: bucket.prefix + key,
            Range: range === undefined ? undefined : `bytes=${range.first}-${range.last}`,
          }),
          http,
        ),
      ),
  );
  if (found === 'absent') return undefined;
  const { Body: body, ContentLength: length = 0 } = found;
  if (!(body instanceof Readable)) throw new StoreError('refused', `GetObject ${bucket.url}/${key}: no body`);
  const whole = /\/(\d+)$/.exec(found.ContentRange ?? '')?.[1];
  return {
    ...describedBy(found),
    key,
    sizeBytes: whole === undefined ? length : Number(whole),
    body: releasing(wholeBody(body, length, `GetObject ${bucket.url}/${key}`, signal), async () => {
      body.destroy();
    }),
  };
}

interface Described {
  readonly ETag?: string | undefined;
  readonly Metadata?: Readonly<Record<string, string>> | undefined;
  readonly LastModified?: Date | undefined;
}

function describedBy({
  Metadata: meta = {},
  LastModified: modified,
}: Described): Pick<ObjectHead, 'meta' | 'modifiedMs'> {
  return { meta, modifiedMs: modified?.getTime() };
}

/** An answer with neither an ETag nor our metadata is no object: some gateway has answered. */
function anObject<T extends Described & { readonly Body?: unknown }>(answer: T): T {
  if (Object.keys(answer.Metadata ?? {}).length === 0 && !answer.ETag) {
    if (answer.Body instanceof Readable) answer.Body.destroy();
    throw new NotFromS3('ETag');
  }
  return answer;
}

/** HEAD's 404 has no body, so a missing bucket looks the same: the first write will say so. */
async function absent(failure: Failure): Promise<'absent' | undefined> {
  return failure.status === 404 && failure.code !== 'NoSuchBucket' ? 'absent' : undefined;
}

async function* wholeBody(
  body: Readable,
  lengthBytes: number,
  what: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  let seenBytes = 0;
  try {
    for await (const chunk of body as AsyncIterable<Uint8Array>) {
      seenBytes += chunk.byteLength;
      yield chunk;
    }
  } catch (error) {
    signal?.throwIfAborted();
    // Node throws here when the connection ends before the promised length (ECONNRESET, aborted).
    const where = `after ${seenBytes} of ${lengthBytes} bytes`;
    throw new StoreError('transient', `${what}: the answer broke off ${where} (${reasonOf(error)})`, {
      cause: error,
    });
  } finally {
    body.destroy();
  }
  signal?.throwIfAborted();
}

/** All objects below a prefix, in byte order, 1,000 a page. */
export async function* listObjects(
  bucket: Bucket,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<ListedObject> {
  let token: string | undefined;
  do {
    const input = { Bucket: bucket.name, Prefix: bucket.prefix + prefix, ContinuationToken: token };
    const ask = { operation: 'ListObjectsV2' as const, key: prefix, signal };
    const page = await request(bucket, ask, async (client, http) => {
      // Keys may hold characters that XML cannot.
      const listed = await client.send(new ListObjectsV2Command({ ...input, EncodingType: 'url' }), http);
      // A page of HTML reads as an empty listing: as if nothing had ever been stored.
      promised(listed.IsTruncated, 'IsTruncated');
      return listed;
    });
    for (const { Key: key = '', Size: sizeBytes = 0 } of page.Contents ?? []) {
      yield { key: relativeKey(bucket, key), sizeBytes };
    }
    token = page.IsTruncated === true ? page.NextContinuationToken : undefined;
  } while (token !== undefined);
}

/** Names of folders directly below a prefix, of one page. */
export async function listFolders(
  bucket: Bucket,
  prefix: string,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  const input = { Bucket: bucket.name, Prefix: bucket.prefix + prefix, Delimiter: '/' };
  const page = await request(bucket, { operation: 'ListObjectsV2', key: prefix, signal }, (client, http) =>
    client.send(new ListObjectsV2Command({ ...input, EncodingType: 'url' }), http),
  );
  return (page.CommonPrefixes ?? []).map(({ Prefix: folder = '' }) =>
    relativeKey(bucket, folder).slice(prefix.length, -1),
  );
}

/** A key of a listing with `encoding-type=url`, without the store's prefix. */
export function relativeKey(bucket: Bucket, encoded: string): string {
  return decodeURIComponent(encoded.replaceAll('+', ' ')).slice(bucket.prefix.length);
}
