// Uploads a large body to a bucket that only the SDK can reach. lib-storage's Upload creates the parts. Each of its
// requests uses our sockets and our retry rules. Lost answers, conditions and leftovers are handled as for any other
// upload (multipart.ts): every exit other than success aborts it.
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { IncomingHttpHeaders } from 'node:http';
import type { HttpRequest, HttpResponse } from '@smithy/core/protocols';
import type { RetryStrategyV2, RetryToken } from '@smithy/types';
import { paceOf, pauseMs } from '../contract/driver.ts';
import type { PutOptions, PutOutcome } from '../contract/store.ts';
import { etagOf, tagOf } from './answer.ts';
import { drained, NotFromStore, promised, textOf } from '../http/body.ts';
import { type Operation, type Signer, storeError } from './bucket.ts';
import { failureOf, mayBeExpired } from './failure.ts';
import { outgoingOf, responseOf } from './handler.ts';
import { checkClaim, claimOfParts, type StoredPart } from './intact.ts';
import { giveUp, refuseAwaited } from './multipart.ts';
import { outcomeAfter, unmet, type Write } from './outcome.ts';
import type { Reach } from './sdk.ts';

/** Each part in flight is in memory, and so is what the SDK collects for the next one. */
const PARTS_AT_ONCE = 2;

interface UploadJob extends Write {
  readonly options: PutOptions;
  readonly reach: Reach;
  /** Whole parts, except the last one. */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** The size of the first chunk. */
  readonly partBytes: number;
}

export async function uploadBySdk(job: UploadJob): Promise<PutOutcome> {
  const { bucket, key, options, reach, partBytes } = job;
  const taken = await unmet(job);
  if (taken !== undefined) return taken;
  const { newUpload } = await import('./sdk.ts');
  const state: UploadState = {
    stop: new AbortController(),
    operation: 'CreateMultipartUpload',
    parts: [],
    headers: {},
  };
  const { stop } = state;
  const abort = (): void => stop.abort(options.signal?.reason);
  options.signal?.addEventListener('abort', abort, { once: true });
  const taker = newTaker(job);
  const upload = newUpload(
    {
      reach,
      keys: () => bucket.keys(stop.signal),
      session: bucket.session,
      aheadMs: bucket.now().getTime() - new Date().getTime(),
      handle: (request) => handle(job, state, request, taker.sent),
      retryStrategy: retryRules(job, state),
    },
    {
      key: bucket.prefix + key,
      meta: { ...options.meta },
      params: bucket.objectParams,
      condition: conditionOf(job),
      // The reader of the chunks handles the error.
      chunks: Readable.from(taker.chunks(stop.signal)).on('error', () => undefined),
      partBytes,
      partsAtOnce: PARTS_AT_ONCE,
      abortController: stop,
    },
  );
  let outcome: PutOutcome;
  try {
    const { ETag: etag } = await upload.done();
    outcome = state.ended = { kind: 'stored', tag: tagOf(promised(etag, 'ETag')) };
  } catch (error) {
    options.signal?.throwIfAborted();
    if (state.ended === undefined) throw stop.signal.aborted ? stop.signal.reason : error;
    outcome = state.ended;
  } finally {
    options.signal?.removeEventListener('abort', abort);
    // Requests in flight must not read the parts any more.
    stop.abort();
    if (state.ended?.kind !== 'stored' && upload.uploadId !== undefined)
      await giveUp(bucket, key, upload.uploadId);
  }
  if (outcome.kind === 'stored') {
    const { signal, meta } = options;
    const { headers, parts } = state;
    await checkClaim(bucket, { ...claimOfParts(parts), key, tag: outcome.tag, headers, meta, signal });
  }
  return outcome;
}

interface UploadState {
  /** Ends everything in flight, with the reason. */
  readonly stop: AbortController;
  /** The operation of the last request. Concurrent requests have the same one. */
  operation: Operation;
  readonly parts: StoredPart[];
  /** Of the last answer to anything but a part. */
  headers: IncomingHttpHeaders;
  /** The outcome of the upload, if something other than its own end decides it. */
  ended?: PutOutcome;
}

function conditionOf({ bucket, options: { precondition } }: UploadJob): Readonly<Record<string, string>> {
  if (precondition?.kind === 'absent') return { IfNoneMatch: '*' };
  if (precondition?.kind !== 'is' || bucket.server.conditions !== 'honoured') return {};
  return { IfMatch: `"${precondition.tag}"` };
}

/** Passes on the chunks, and releases those whose parts were sent. */
function newTaker({ chunks, partBytes, options }: UploadJob) {
  const given: { readonly chunk: Uint8Array; readonly endBytes: number }[] = [];
  const left = new Set<number>();
  let givenBytes = 0;
  let whole = 0;
  return {
    chunks: async function* (signal: AbortSignal): AsyncGenerator<Uint8Array> {
      for await (const chunk of chunks) {
        signal.throwIfAborted();
        givenBytes += chunk.byteLength;
        given.push({ chunk, endBytes: givenBytes });
        yield chunk;
      }
    },
    sent: (part: number, bytes: number): void => {
      options.onSent?.(bytes);
      left.add(part);
      while (left.delete(whole + 1)) whole += 1;
      for (;;) {
        const [first] = given;
        if (first === undefined || first.endBytes > whole * partBytes) return;
        given.shift();
        options.release?.(first.chunk);
      }
    },
  };
}

/** Sends one request of the SDK, and checks that its answer has the content that S3 promises. */
async function handle(
  job: UploadJob,
  state: UploadState,
  request: HttpRequest,
  onSent: (part: number, bytes: number) => void,
): Promise<HttpResponse> {
  const { bucket } = job;
  const { stop, parts } = state;
  const number = Number(request.query['partNumber'] ?? 0);
  state.operation = number > 0 ? 'UploadPart' : operationOf(request);
  if (state.operation === 'CompleteMultipartUpload') await beforeEnd(job, state);
  const answer = await bucket.transport.send(outgoingOf(request), stop.signal);
  const isGood = answer.status < 300;
  if (answer.status === 403) bucket.setClock(answer);
  if (isGood && state.operation === 'UploadPart') {
    const sizeBytes = (request.body as Uint8Array).byteLength;
    parts[number - 1] = { number, etag: etagOf(answer), sizeBytes };
    // The server may have answered early. The chunk must not change before it is sent.
    await new Promise<void>((resolve) => answer.onceLeft(resolve));
    onSent(number, sizeBytes);
    await drained(answer);
    return responseOf(answer, Readable.from([]));
  }
  const text = await textOf(answer);
  answer.stopSending();
  state.headers = answer.headers;
  const holds = state.operation === 'CreateMultipartUpload' ? 'UploadId' : 'ETag';
  if (isGood && !text.includes(`<${holds}>`) && !text.includes('<Error>')) throw new NotFromStore(holds);
  return responseOf(answer, Readable.from([Buffer.from(text)]));
}

function operationOf({ query }: HttpRequest): Operation {
  return 'uploads' in query ? 'CreateMultipartUpload' : 'CompleteMultipartUpload';
}

/** The last look. Its outcome ends the upload. */
async function beforeEnd(job: UploadJob, state: UploadState): Promise<void> {
  try {
    refuseAwaited(job.bucket, job.key, state.parts);
    if (job.bucket.server.otherConditions !== 'honoured' && job.options.precondition?.kind === 'is')
      state.ended = await unmet(job);
  } catch (error) {
    state.stop.abort(error);
    throw error;
  }
  if (state.ended === undefined) return;
  state.stop.abort();
  throw new Error(state.ended.kind);
}

/** The retry rules of all other requests (bucket.ts), in the SDK's form. */
function retryRules(job: UploadJob, state: UploadState): RetryStrategyV2 {
  const { bucket, key } = job;
  const settle = outcomeAfter(job);
  const begun = new WeakMap<RetryToken, RequestHistory>();
  const tokenOf = (tries: number, since: RequestHistory): RetryToken => {
    const token = { getRetryCount: () => tries, getRetryDelay: () => 0 };
    begun.set(token, since);
    return token;
  };
  return {
    acquireInitialRetryToken: async () =>
      tokenOf(0, { startMs: performance.now(), signer: bucket.signer(), mended: new Set() }),
    recordSuccess: () => bucket.onTry?.('write', undefined),
    refreshRetryTokenForRetry: async (token, { error }) => {
      const since = begun.get(token);
      const { operation, stop } = state;
      if (since === undefined || stop.signal.aborted) throw error;
      const tries = token.getRetryCount() + 1;
      const failure = failureOf(error, bucket.location.origin);
      const told = storeError(bucket, { operation, key }, { failure, tries, cause: error });
      try {
        if (failure.wasIdle) bucket.transport.closeIdle();
        if (mayBeExpired(failure)) bucket.renew(since.signer);
        // Each of these causes allows one more try at once.
        const mended = mayBeExpired(failure) ? 'keys' : failure.wasIdle ? 'socket' : failure.code;
        if (AT_ONCE.has(mended) && !since.mended.has(mended)) {
          since.mended.add(mended);
          return tokenOf(tries, since);
        }
        bucket.onTry?.('write', told);
        if (operation === 'CompleteMultipartUpload') {
          const outcome = await settle(failure);
          if (outcome?.kind === 'unhonoured') bucket.server.conditions = 'unread';
          if (outcome !== undefined)
            state.ended = outcome.kind === 'unhonoured' ? { kind: 'replaced-meanwhile' } : outcome;
        }
        const pace = paceOf(told);
        const leftMs = since.startMs + bucket.budgetMs * (pace?.budgets ?? 0) - performance.now();
        if (state.ended !== undefined || pace === undefined || leftMs <= 0) throw told;
        await sleep(Math.min(leftMs, pauseMs(pace, tries, Math.random())), undefined, {
          signal: stop.signal,
        });
        return tokenOf(tries, since);
      } catch (reason) {
        // The other part in flight could take minutes on a slow link.
        stop.abort(reason);
        throw reason;
      }
    },
  };
}

/** What is known of a request since its first try. */
interface RequestHistory {
  readonly startMs: number;
  readonly signer: Signer;
  readonly mended: Set<string>;
}

/** The SDK has corrected its clock by the answer. */
const AT_ONCE = new Set(['keys', 'socket', 'RequestTimeTooSkewed']);
