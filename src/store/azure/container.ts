// One container and prefix. Every request of the driver goes through `request`: it bounds the waiting, retries, and words
// errors. It never logs.
import { Readable } from 'node:stream';
import type { BlockBlobClient } from '@azure/storage-blob';
import type { StoreSettings } from '../../model/format/settings.ts';
import { timedOut } from '../../model/errors.ts';
import { linkSignals, untilAborted } from '../../model/waiting.ts';
import { startTimer } from '../../native/clock.ts';
import { retrying } from '../contract/driver.ts';
import { type Access, StoreError, type OnTry, type StoreUse } from '../contract/store.ts';
import { signIn, type SignIn, STALL_MS } from './credentials.ts';
import { detailsOf, EXPIRED, type Failure, failureOf } from './failure.ts';
import { isAltered, splitUrl } from './url.ts';

/** The requests of this driver, by their names in the REST API, with their purposes. */
const OPERATIONS = {
  GetBlob: 'read',
  GetBlobProperties: 'read',
  GetAccountInformation: 'read',
  GetToken: 'read',
  ListBlobs: 'read',
  PutBlob: 'write',
  PutBlock: 'write',
  PutBlockList: 'write',
  CopyBlobFromURL: 'write',
  PutBlockFromURL: 'write',
  DeleteBlob: 'remove',
} as const satisfies Readonly<Record<string, StoreUse>>;

/** So many times as long takes Azure to read and write a large object before it answers. */
const SLOW_STALLS = 4;

export interface BlobContainer {
  /** Empty, or ends with `/`. */
  readonly prefix: string;
  /** `az://account/container/prefix` */
  readonly url: string;
  /** `https://account.blob.core.windows.net`, for messages. */
  readonly endpoint: string;
  readonly signIn: SignIn;
  /** What is known of the account: `isFlat` once it is known, or cannot be asked, that it has no hierarchical namespace. */
  readonly account: { isFlat: boolean };
  readonly budgetMs: number;
  readonly onTry: OnTry | undefined;
  readonly stallMs: number;
}

export async function openContainer(
  settings: StoreSettings,
  budgetMs: number,
  onTry: OnTry | undefined,
  stallMs = STALL_MS,
): Promise<BlobContainer> {
  const { account, container, prefix } = splitUrl(settings.url);
  const signedIn = await signIn(account, container);
  const url = settings.url.replace(/\/+$/, '');
  const { origin: endpoint } = new URL(signedIn.container.url);
  return { prefix, url, endpoint, signIn: signedIn, account: { isFlat: false }, budgetMs, onTry, stallMs };
}

/** Throws `impossible` if Azure would store the object under another name. */
export function blobOf({ signIn: { container }, prefix, url }: BlobContainer, key: string): BlockBlobClient {
  const name = prefix + key;
  if (!isAltered(name) && name.length <= MOST_CHARACTERS) return container.getBlockBlobClient(name);
  throw new StoreError('impossible', `${url}/${key}: Azure cannot hold this name`, {
    hint: 'rename the file or directory: no backslash, no dot at the end of a name, 1024 characters in all',
  });
}

const MOST_CHARACTERS = 1024;

export interface RequestOptions<Instead> {
  readonly operation: keyof typeof OPERATIONS;
  /** Relative to the prefix. For listings it is a prefix itself. */
  readonly key: string;
  readonly signal?: AbortSignal | undefined;
  /** Replaces the container's budget. */
  readonly budgetMs?: number;
  /** One try may make no progress for longer. */
  readonly isSlow?: boolean;
  /** Called for every failure. A returned value ends the request, as if it had been the answer. */
  readonly onFailure?: (failure: Failure) => Promise<Instead | undefined>;
}

type Send<T> = (signal: AbortSignal, onProgress: () => void) => Promise<T>;

/** Sends one request, with retries where they help. Throws a {@link StoreError}, or the signal's reason. */
export async function request<T, Instead = never>(
  container: BlobContainer,
  options: RequestOptions<Instead>,
  send: Send<T>,
): Promise<T | Instead> {
  const { operation, key, signal, onFailure, budgetMs = container.budgetMs, isSlow = false } = options;
  const stallMs = container.stallMs * (isSlow ? SLOW_STALLS : 1);
  const attempt = async (tries: number): Promise<T | Instead> => {
    try {
      return await bounded(signal, stallMs, send);
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof StoreError) throw error;
      const failure = failureOf(error, container.endpoint);
      const instead = await onFailure?.(failure);
      if (instead !== undefined) return instead;
      const isExpired =
        failure.kind === 'denied' && (container.signIn.expiresMs ?? Infinity) < new Date().getTime();
      const { kind, why, hint } = isExpired ? EXPIRED : failure;
      const message = `${operation} ${container.url}/${key}: ${why} (${detailsOf(failure, tries)})`;
      // Without the cause: it has the URL, and with that a SAS.
      throw new StoreError(kind, message, { hint });
    }
  };
  const use = OPERATIONS[operation];
  return retrying(attempt, { budgetMs, signal, onTry: (error) => container.onTry?.(use, error) });
}

/** What is known about the credentials. Throws a StoreError if there are none. */
export function accessOf(container: BlobContainer, signal: AbortSignal | undefined): Promise<Access> {
  const ask = { operation: 'GetToken' as const, key: '', signal, budgetMs: 0 };
  return request(container, ask, (abortSignal) => container.signIn.access(abortSignal));
}

/** Ends `act` with ETIMEDOUT when it has made no progress for `stallMs`. Rejects with the signal's reason. */
export async function bounded<T>(signal: AbortSignal | undefined, stallMs: number, act: Send<T>): Promise<T> {
  const stall = new AbortController();
  const linked = linkSignals(stall.signal, signal);
  const start = () => startTimer(stallMs, () => stall.abort(timedOut(`no progress for ${stallMs} ms`)));
  let timer = start();
  const onProgress = (): void => {
    timer.cancel();
    timer = start();
  };
  try {
    return await untilAborted(act(linked.signal, onProgress), linked.signal);
  } finally {
    timer.cancel();
    linked.unlink();
  }
}

/** So that the SDK can report the progress of a body. */
const SLICE_BYTES = 64 * 1024;

/** A body for the SDK, which it may read several times. */
export function slicesOf(bytes: Uint8Array): () => NodeJS.ReadableStream {
  return () =>
    Readable.from(
      (function* slices() {
        for (let at = 0; at < bytes.byteLength; at += SLICE_BYTES) yield bytes.subarray(at, at + SLICE_BYTES);
      })(),
      { objectMode: false },
    );
}
