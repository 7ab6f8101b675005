// A multipart upload through lib-storage's Upload, made safe: each request of it is retried by our rules, the
// first failure stops all the others, and on every way out but success the upload is aborted, so that no
// parts are left behind to be paid for.
import { Readable } from 'node:stream';
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  PutObjectCommand,
  UploadPartCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { linkSignals } from '../../model/linked-signal.ts';
import { reached } from '../../native/failpoint.ts';
import type { PutOptions, PutOutcome } from '../contract/store.ts';
import { request, type Bucket } from './bucket.ts';
import { promised, type Failure } from './failure.ts';
import { PartMemory } from './part-memory.ts';

/** S3 takes no smaller part but the last (Amazon S3 multipart upload limits). */
export const SMALLEST_PART_BYTES = 5 * 2 ** 20;
/** S3 takes 10,000; the rest is room for a size that was estimated too small. */
const PARTS_TO_PLAN = 9000;
/** Each part in flight is in memory. */
const PARTS_AT_ONCE = 2;
/** An abort must not hold up the end of the run; what it leaves, sweep finds. */
const ABORT_BUDGET_MS = 5000;

/** The chunks that were read already, and what gives the others. */
export interface UploadBody {
  readonly head: readonly Uint8Array[];
  readonly rest: AsyncIterator<Uint8Array>;
}

type Settle = (failure: Failure) => Promise<PutOutcome | undefined>;

/** Uploads a body of many parts; `settle` says what a failed completion has done after all. */
export async function upload(
  bucket: Bucket,
  key: string,
  body: UploadBody,
  options: PutOptions,
  settle: Settle,
): Promise<PutOutcome> {
  const stop = new AbortController();
  const { signal, unlink } = linkSignals(stop.signal, options.signal);
  const failures: unknown[] = [];
  // Upload would wait for the other parts that are under way: minutes, on a slow link.
  const fail = (error: unknown): never => {
    failures.push(error);
    stop.abort(error);
    throw error;
  };
  let outcome: PutOutcome = 'stored';
  const partSize = partSizeBytes(body, options);
  const released = (part: Uint8Array, next: Uint8Array): void => {
    // With less behind it, Upload may not have copied it yet.
    if (next.byteLength >= partSize) options.release?.(part);
  };
  const source = Readable.from(slices(body, signal, fail, released), { highWaterMark: 0 });
  // Whoever reads it hears of its failure; after the end of the upload nobody does.
  source.on('error', () => undefined);
  const publish = async (failure: Failure): Promise<object | undefined> => {
    const settled = await settle(failure);
    if (settled === undefined) return undefined;
    outcome = settled;
    // As an error, so that Upload removes the parts.
    if (outcome === 'exists') throw new Error('the key is taken');
    return {};
  };
  const job = new Upload({
    client: retryingClient(bucket, { key, signal, publish, fail, onSent: options.onSent }),
    params: {
      Bucket: bucket.name,
      Key: bucket.prefix + key,
      Metadata: { ...options.meta },
      IfNoneMatch: options.ifAbsent === true ? '*' : undefined,
      Body: source,
    },
    partSize,
    queueSize: PARTS_AT_ONCE,
    leavePartsOnError: false,
  });
  try {
    await job.done();
  } catch (error) {
    options.signal?.throwIfAborted();
    // The first failure is the cause; those of the requests that it stopped are not.
    if (outcome === 'stored') throw failures[0] ?? error;
  } finally {
    unlink();
    source.destroy();
  }
  return outcome;
}

function partSizeBytes(body: UploadBody, { sizeHintBytes = 0 }: PutOptions): number {
  const firstBytes = body.head[0]?.byteLength ?? 0;
  return Math.max(SMALLEST_PART_BYTES, firstBytes, Math.ceil(sizeHintBytes / PARTS_TO_PLAN));
}

/**
 * Upload joins what it gets until it has more than a part. Of whole parts it would join two each time; cut
 * after its first byte, each is copied once only, when its successor begins.
 */
async function* slices(
  body: UploadBody,
  signal: AbortSignal,
  fail: (error: unknown) => never,
  released: (part: Uint8Array, next: Uint8Array) => void,
): AsyncGenerator<Uint8Array> {
  let before: Uint8Array | undefined;
  for await (const part of chunksOf(body, fail)) {
    signal.throwIfAborted();
    yield part.subarray(0, 1);
    yield part.subarray(1);
    // Both are taken: with the first byte of this one the one before was copied.
    if (before !== undefined) released(before, part);
    before = part;
  }
}

async function* chunksOf(body: UploadBody, fail: (error: unknown) => never): AsyncGenerator<Uint8Array> {
  yield* body.head;
  for (;;) {
    const next = await body.rest.next().catch(fail);
    if (next.done === true) return;
    yield next.value;
  }
}

interface Sending {
  readonly key: string;
  readonly signal: AbortSignal;
  /** What a failed request that publishes has done after all. */
  readonly publish: (failure: Failure) => Promise<object | undefined>;
  readonly fail: (error: unknown) => never;
  readonly onSent: PutOptions['onSent'];
}

const OPERATIONS = [
  ['AbortMultipartUpload', AbortMultipartUploadCommand],
  ['CompleteMultipartUpload', CompleteMultipartUploadCommand],
  ['CreateMultipartUpload', CreateMultipartUploadCommand],
  ['PutObject', PutObjectCommand],
  ['UploadPart', UploadPartCommand],
] as const;

/** What a good answer always has. */
const PROMISED: Readonly<Partial<Record<(typeof OPERATIONS)[number][0], string>>> = {
  CompleteMultipartUpload: 'ETag',
  CreateMultipartUpload: 'UploadId',
  PutObject: 'ETag',
  UploadPart: 'ETag',
};

/** The client that Upload sees: the real one, with `send` replaced. */
function retryingClient(bucket: Bucket, { key, signal, publish, fail, onSent }: Sending): S3Client {
  const memory = new PartMemory();
  const send = async (command: UploadPartCommand): Promise<object> => {
    const operation = OPERATIONS.find(([, Command]) => command instanceof Command)?.[0] ?? 'UploadPart';
    const attempt = async (
      client: S3Client,
      http: { readonly abortSignal?: AbortSignal },
    ): Promise<object> => {
      reached(operation === 'CompleteMultipartUpload' ? 's3.before-complete' : 's3.before-part');
      const answer = await client.send(command, http);
      reached(operation === 'CompleteMultipartUpload' ? 's3.after-complete' : 's3.after-part');
      const lacks = PROMISED[operation];
      if (lacks !== undefined) promised(Reflect.get(answer, lacks) as string | undefined, lacks);
      const { Body: part } = command.input;
      if (part instanceof Uint8Array) onSent?.(part.byteLength);
      return answer;
    };
    if (operation === 'AbortMultipartUpload') {
      // The error that led here is the one to report; what stays behind, sweep finds.
      return request(bucket, { operation, key, budgetMs: ABORT_BUDGET_MS }, attempt).catch(() => ({}));
    }
    const { PartNumber: number, Body: part } = command.input;
    const isPart = operation === 'UploadPart' && number !== undefined && part instanceof Uint8Array;
    if (isPart) memory.begins(number, part);
    const settle = operation === 'CompleteMultipartUpload' || operation === 'PutObject' ? publish : undefined;
    const answer = await request(bucket, { operation, key, signal, settle }, attempt).catch(fail);
    if (isPart) bucket.onceLeft(part, () => memory.ends(number));
    return answer;
  };
  return Object.create(bucket.client(), { send: { value: send } });
}
