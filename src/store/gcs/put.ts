// Writes to Cloud Storage. Small bodies are one request, larger ones a resumable upload: its condition is given at its
// start, and holds when its last byte arrives. (Multipart uploads of the XML API have no conditions.) An upload that is
// left costs nothing, and ends after a week.
import { md5Of, newMd5 } from '../../model/md5.ts';
import { linkSignals } from '../../model/waiting.ts';
import { wholeOrParts } from '../contract/driver.ts';
import { type ObjectMeta, type PutOptions, type PutOutcome, StoreError } from '../contract/store.ts';
import { drained, NotFromStore, promised, textOf } from '../http/body.ts';
import type { Answer } from '../http/transport.ts';
import { type Bucket, objectPath, request, resourcePath } from './bucket.ts';
import type { Failure } from './failure.ts';
import { generationIn, hexOf, md5In, resourceIn } from './objects.ts';
import { generationOf, otherBytes, outcomeAfter } from './outcome.ts';

const OCTETS = 'application/octet-stream';
/** Otherwise caches would show an older state of objects that everybody may read. */
const NO_STORE = 'no-store';
/** Requests of an upload end at multiples of this, except the last one. */
const UNIT_BYTES = 256 * 1024;

/** Makes one object visible, atomically. */
export async function putObject(
  bucket: Bucket,
  key: string,
  body: Uint8Array | AsyncIterable<Uint8Array>,
  options: PutOptions,
): Promise<PutOutcome> {
  const job = { bucket, key, options };
  return wholeOrParts(
    body,
    (bytes) => putBytes(job, bytes),
    (first, second, rest) => putParts(job, first, second, rest),
  );
}

interface PutJob {
  readonly bucket: Bucket;
  readonly key: string;
  readonly options: PutOptions;
}

/** What the store says of the object that a put has made. */
interface Stored {
  readonly tag: string;
  readonly md5: string | undefined;
}

async function putBytes(job: PutJob, body: Uint8Array): Promise<PutOutcome> {
  const { bucket, key, options } = job;
  const { meta, precondition, signal } = options;
  const md5 = options.md5 ?? md5Of(body);
  const generation = generationOf(precondition);
  const headers = {
    'content-type': OCTETS,
    'cache-control': NO_STORE,
    // The store refuses bytes that were changed on their way.
    'x-goog-hash': `md5=${Buffer.from(md5, 'hex').toString('base64')}`,
    ...(generation === undefined ? {} : { 'x-goog-if-generation-match': generation }),
    ...metaHeaders(meta),
  };
  const onFailure = settled(job, md5);
  const stored = await request(bucket, { operation: 'put', key, signal, onFailure }, async (send) => {
    const answer = await send({ method: 'PUT', path: objectPath(bucket, key), headers, body });
    await drained(answer);
    const found = { tag: generationIn(answer), md5: md5In(answer) };
    options.onSent?.(body.byteLength);
    return found;
  });
  return outcomeOf(job, stored, md5);
}

function metaHeaders(meta: ObjectMeta): Record<string, string> {
  return Object.fromEntries(Object.entries(meta).map(([name, value]) => [`x-goog-meta-${name}`, value]));
}

/** Without an md5, only an earlier put with the same push id can have stored the object. */
function settled({ bucket, key, options }: PutJob, md5: string | undefined) {
  const { meta, precondition, signal } = options;
  const isWhole = (there: Stored): boolean => (there.md5 ?? md5) === md5 || md5 === undefined;
  return (failure: Failure): Promise<PutOutcome | undefined> =>
    outcomeAfter({ bucket, key, meta, precondition, signal, isWhole }, failure);
}

function outcomeOf({ bucket, key }: PutJob, stored: Stored | PutOutcome, md5: string): PutOutcome {
  if ('kind' in stored) return stored;
  if ((stored.md5 ?? md5) !== md5) throw otherBytes(bucket, key);
  return { kind: 'stored', tag: stored.tag };
}

/** The first failure also stops the part on its way, whose memory may be reused soon. */
async function putParts(
  job: PutJob,
  first: Uint8Array,
  second: Uint8Array,
  chunks: AsyncIterator<Uint8Array>,
): Promise<PutOutcome> {
  const { options } = job;
  const stop = new AbortController();
  const { signal, unlink } = linkSignals(stop.signal, options.signal);
  try {
    return await sendParts({ ...job, options: { ...options, signal } }, [first, second], chunks);
  } catch (error) {
    stop.abort(error);
    options.signal?.throwIfAborted();
    throw error;
  } finally {
    unlink();
  }
}

/** Sends each part once the next one is known, while the one after that is read. */
async function sendParts(
  job: PutJob,
  [first, second]: readonly [Uint8Array, Uint8Array],
  chunks: AsyncIterator<Uint8Array>,
): Promise<PutOutcome> {
  const { options } = job;
  const begun = await beginUpload(job);
  if ('kind' in begun) return begun;
  let part = first;
  let following: IteratorResult<Uint8Array> = { done: false, value: second };
  const md5 = newMd5();
  let upload: Upload = { path: begun.path, heldBytes: 0, rest: new Uint8Array(0) };
  while (following.done !== true) {
    md5.update(part);
    const [sent, next] = await Promise.all([sendPart(job, upload, part), chunks.next()]);
    if ('kind' in sent) return sent;
    options.onSent?.(part.byteLength);
    options.release?.(part);
    upload = sent;
    part = following.value;
    following = next;
  }
  md5.update(part);
  const digest = md5.digest();
  const ended = await sendBytes(job, upload, behind(upload.rest, part), digest);
  if ('heldBytes' in ended) throw new NotFromStore('end');
  options.onSent?.(part.byteLength);
  return outcomeOf(job, ended, digest);
}

interface Upload {
  /** With the id of the upload, which is a secret: whoever knows it may write. */
  readonly path: string;
  /** Bytes that the store has. */
  readonly heldBytes: number;
  /** Bytes behind them that it does not take yet: less than a unit. */
  readonly rest: Uint8Array;
}

async function beginUpload(job: PutJob): Promise<{ readonly path: string } | PutOutcome> {
  const { bucket, key, options } = job;
  const { meta, precondition, signal } = options;
  const generation = generationOf(precondition);
  const call = {
    method: 'POST',
    path: `/upload${resourcePath(bucket)}`,
    query: {
      uploadType: 'resumable',
      name: bucket.prefix + key,
      ...(generation === undefined ? {} : { ifGenerationMatch: generation }),
    },
    headers: { 'content-type': 'application/json', 'x-upload-content-type': OCTETS },
    body: JSON.stringify({ cacheControl: NO_STORE, contentType: OCTETS, metadata: meta }),
  };
  const onFailure = settled(job, undefined);
  return request(bucket, { operation: 'put', key, signal, onFailure }, async (send) => {
    const answer = await send(call);
    await drained(answer);
    const location = promised(answer.headers.location, 'location');
    if (!URL.canParse(location)) throw new NotFromStore('location');
    // Never to another server: the token goes along.
    const { pathname, search } = new URL(location);
    return { path: pathname + search };
  });
}

/** Sends whole units, and keeps the rest. */
async function sendPart(job: PutJob, upload: Upload, part: Uint8Array): Promise<Upload | PutOutcome> {
  const { path, heldBytes, rest } = upload;
  const bytes = behind(rest, part);
  const wholeBytes = bytes.length - (bytes.length % UNIT_BYTES);
  const sent = await sendBytes(job, upload, bytes.subarray(0, wholeBytes), undefined);
  if ('kind' in sent) return sent;
  return { path, heldBytes: heldBytes + wholeBytes, rest: Uint8Array.from(bytes.subarray(wholeBytes)) };
}

function behind(rest: Uint8Array, part: Uint8Array): Uint8Array {
  return rest.length === 0 ? part : Buffer.concat([rest, part]);
}

/** What the store has of an upload, or the object that it has become. */
type State = { readonly heldBytes: number } | Stored;

/**
 * Sends bytes behind those that the store holds. With the md5 of the whole body they end the upload, and without it
 * they do not. After a failure the store says what it holds
 * (https://docs.cloud.google.com/storage/docs/performing-resumable-uploads#status-check).
 */
async function sendBytes(
  job: PutJob,
  { path, heldBytes: from }: Upload,
  bytes: Uint8Array,
  md5: string | undefined,
): Promise<State | PutOutcome> {
  const { bucket, key, options } = job;
  const { signal } = options;
  const end = from + bytes.length;
  const total = md5 === undefined ? '*' : String(end);
  let held = from;
  let isKnown = true;
  const settle = settled(job, md5);
  const onFailure = async (failure: Failure): Promise<PutOutcome | typeof DROPPED | undefined> => {
    isKnown = false;
    return (await settle(failure)) ?? (isDropped(failure) ? DROPPED : undefined);
  };
  const sent = await request(bucket, { operation: 'put', key, signal, onFailure }, async (send) => {
    for (;;) {
      const isEmpty = !isKnown || held === end;
      if (isKnown && isEmpty && md5 === undefined) return { heldBytes: held };
      const range = isEmpty ? '*' : `${held}-${end - 1}`;
      const headers = { 'content-range': `bytes ${range}/${isKnown ? total : '*'}` };
      const body = isEmpty ? new Uint8Array(0) : bytes.subarray(held - from);
      const state = await stateIn(await send({ method: 'PUT', path, headers, body }));
      if (!('heldBytes' in state)) {
        if (md5 === undefined) throw new NotFromStore('range of an upload');
        return state;
      }
      const isProgress = state.heldBytes > held || (!isKnown && state.heldBytes >= from);
      if (!isProgress || state.heldBytes > end) throw new NotFromStore('range of what was sent');
      held = state.heldBytes;
      isKnown = true;
    }
  });
  if (sent !== DROPPED) return sent;
  // Nothing of the earlier parts is left to send again.
  throw new StoreError('transient', `put ${bucket.url}/${key}: the store has dropped the upload`);
}

const DROPPED = 'dropped';

/** https://docs.cloud.google.com/storage/docs/resumable-uploads#session-uris: another upload can be begun. */
function isDropped({ status, code }: Failure): boolean {
  return status === 410 || (status === 404 && code !== 'NoSuchBucket');
}

async function stateIn(answer: Answer): Promise<State> {
  const text = await textOf(answer);
  if (answer.status === 308) {
    const last = /^bytes=0-(\d+)$/.exec(answer.headers.range ?? '')?.[1];
    return { heldBytes: last === undefined ? 0 : Number(last) + 1 };
  }
  const { generation, md5Hash } = resourceIn(text);
  const md5 = hexOf(typeof md5Hash === 'string' ? md5Hash : undefined);
  return { tag: promised(typeof generation === 'string' ? generation : undefined, 'generation'), md5 };
}
