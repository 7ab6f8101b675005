// One bucket and prefix. Every request of the driver goes through `request`: it adds the token, retries, renews
// credentials that are refused, and words errors. It never logs.
import type { StoreSettings } from '../../model/format/settings.ts';
import { retrying } from '../contract/driver.ts';
import { type Access, type OnTry, StoreError, type StoreUse } from '../contract/store.ts';
import { escaped, escapedPath } from '../http/network.ts';
import { authorityOf, hostOf, isLoopback } from '../http/proxy.ts';
import {
  type Answer,
  openTransport,
  type Server,
  type Transport,
  type TransportTuning,
} from '../http/transport.ts';
import { type HeaderSource, newHeaderSource } from './credentials.ts';
import { detailsOf, type Failure, failureOf, refusalOf } from './failure.ts';
import { splitUrl } from './url.ts';

/** By the rights that they need (https://docs.cloud.google.com/storage/docs/access-control/iam-permissions). */
const OPERATIONS = {
  get: { use: 'read', right: 'storage.objects.get' },
  list: { use: 'read', right: 'storage.objects.list' },
  put: { use: 'write', right: 'storage.objects.create and storage.objects.delete' },
  copy: { use: 'write', right: 'storage.objects.get, storage.objects.create and storage.objects.delete' },
  delete: { use: 'remove', right: 'storage.objects.delete' },
} as const satisfies Readonly<Record<string, { readonly use: StoreUse; readonly right: string }>>;

export interface Bucket {
  readonly name: string;
  /** Empty, or ends with `/`. */
  readonly prefix: string;
  /** `gs://bucket/prefix` */
  readonly url: string;
  readonly server: Server;
  readonly transport: Transport;
  readonly budgetMs: number;
  readonly onTry: OnTry | undefined;
  /** The current source of tokens; undefined for an emulator, which wants none. */
  headers(): HeaderSource | undefined;
  /** Replaces a source whose token was refused: files are read again. */
  renew(refused: HeaderSource | undefined): void;
  close(): void;
}

export interface BucketTuning extends TransportTuning {
  readonly onTry?: OnTry | undefined;
}

/** Opens a bucket with the settings of the environment. Sends nothing. */
export function openBucket(settings: StoreSettings, budgetMs: number, tuning: BucketTuning = {}): Bucket {
  const { onTry, ...transportTuning } = tuning;
  const { bucket: name, prefix } = splitUrl(settings.url);
  const { server, isEmulator } = locationOf(process.env);
  const transport = openTransport(transportTuning);
  let headers = isEmulator ? undefined : newHeaderSource(transport);
  return {
    name,
    prefix: prefix === '' ? '' : `${prefix}/`,
    url: settings.url,
    server,
    transport,
    budgetMs,
    onTry,
    headers: () => headers,
    renew: (refused) => {
      // Several requests notice it at once; one new source serves all of them.
      if (refused !== undefined && refused === headers) headers = newHeaderSource(transport);
    },
    close: () => transport.close(),
  };
}

const GOOGLE = 'https://storage.googleapis.com';

/** An emulator is named as for Google's client libraries, and another endpoint as for gcloud. */
function locationOf(env: NodeJS.ProcessEnv): { readonly server: Server; readonly isEmulator: boolean } {
  const emulator = env['STORAGE_EMULATOR_HOST'] ?? '';
  const override = env['CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE'] ?? '';
  const name = emulator === '' ? 'CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE' : 'STORAGE_EMULATOR_HOST';
  const given = emulator || override || GOOGLE;
  const text = given.includes('://') ? given : `http://${given}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new StoreError('refused', `${name} is no address of a server: ${given}`, {
      hint: `${name}=http://localhost:4443`,
    });
  }
  const isTls = url.protocol === 'https:';
  const server = { isTls, host: hostOf(url), port: Number(url.port || (isTls ? 443 : 80)) };
  const isEmulator = emulator !== '';
  if (!isTls && !isEmulator && !isLoopback(server.host)) {
    throw new StoreError('refused', `${name} is ${given}: others on the way could read the tokens`, {
      hint: `${name}=https://...`,
    });
  }
  return { server, isEmulator };
}

/** Asks for a token, and throws a StoreError if there is none. Tokens are renewed before they expire. */
export async function accessOf(bucket: Bucket, signal: AbortSignal | undefined): Promise<Access | undefined> {
  const headers = bucket.headers();
  if (headers === undefined) return undefined;
  try {
    await headers(signal);
    return { expiresMs: undefined, isSession: false, isRenewable: true };
  } catch (cause) {
    signal?.throwIfAborted();
    const { kind, why, hint } = failureOf(cause, originOf(bucket.server));
    throw new StoreError(kind, why, { hint, cause });
  }
}

/** What a request adds to its operation. */
export interface Call {
  readonly method?: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
}

export interface RequestOptions<Instead> {
  readonly operation: keyof typeof OPERATIONS;
  /** Relative to the prefix. For listings it is a prefix itself. */
  readonly key: string;
  readonly signal?: AbortSignal | undefined;
  /** Replaces the bucket's budget. */
  readonly budgetMs?: number;
  /** Called for every failure. A returned value ends the request, as if it had been the answer. */
  readonly onFailure?: (failure: Failure) => Promise<Instead | undefined>;
}

/** Of the XML API: the object itself. */
export function objectPath({ name, prefix }: Bucket, key: string): string {
  return `/${name}/${escapedPath(prefix + key)}`;
}

/** Of the JSON API: objects of the bucket, or one of them. */
export function resourcePath({ name, prefix }: Bucket, key?: string): string {
  return `/storage/v1/b/${name}/o${key === undefined ? '' : `/${escaped(prefix + key)}`}`;
}

/** Sends requests, with retries where they help. Throws a {@link StoreError}, or the signal's reason. */
export async function request<Result, Instead = never>(
  bucket: Bucket,
  options: RequestOptions<Instead>,
  ask: (send: (call: Call) => Promise<Answer>) => Promise<Result>,
): Promise<Result | Instead> {
  const { signal, onFailure, operation, key } = options;
  const { use, right } = OPERATIONS[operation];
  /** Each of these causes allows one more try at once. */
  const mended = new Set<'token' | 'socket'>();
  const attempt = async (tries: number): Promise<Result | Instead> => {
    const source = bucket.headers();
    let answer: Answer | undefined;
    try {
      return await ask(async (call) => {
        answer = await send(bucket, call, await source?.(signal), signal);
        // 308 is "resume incomplete", no redirect.
        if (answer.status >= 300 && answer.status !== 308) throw await refusalOf(answer);
        return answer;
      });
    } catch (error) {
      // A server may refuse a body before it has read it. The body's memory may be reused soon.
      answer?.stopSending();
      signal?.throwIfAborted();
      const failure = failureOf(error, originOf(bucket.server));
      if (failure.kind === 'expired' && !mended.has('token')) {
        mended.add('token');
        bucket.renew(source);
        return attempt(tries + 1);
      }
      if (failure.wasIdle) bucket.transport.closeIdle();
      const hint =
        failure.hint ??
        (failure.kind === 'denied' ? `give these credentials ${right} on the bucket` : undefined);
      const what = `${operation} gs://${bucket.name}/${bucket.prefix}${key}`;
      const told = new StoreError(failure.kind, `${what}: ${failure.why} (${detailsOf(failure, tries)})`, {
        hint,
        cause: error,
      });
      // Reported before a look, which takes as long again if the server is down.
      if (failure.lost && !failure.wasIdle) bucket.onTry?.(use, told);
      const instead = await onFailure?.(failure);
      if (instead !== undefined) return instead;
      if (failure.wasIdle && !mended.has('socket')) {
        mended.add('socket');
        return attempt(tries + 1);
      }
      throw told;
    }
  };
  const onTry = (error: StoreError | undefined): void => bucket.onTry?.(use, error);
  return retrying(attempt, { budgetMs: options.budgetMs ?? bucket.budgetMs, signal, onTry });
}

function originOf({ isTls, host, port }: Server): string {
  const isUsual = port === (isTls ? 443 : 80);
  return `${isTls ? 'https' : 'http'}://${isUsual ? host : authorityOf({ host, port })}`;
}

const USER_AGENT = `capture/${CAPTURE_VERSION} node/${process.versions.node}`;

function send(
  { server, transport }: Bucket,
  { method = 'GET', path, query = {}, headers, body }: Call,
  authorization: Readonly<Record<string, string>> | undefined,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  const search = Object.entries(query).map(([name, value]) => `${name}=${escaped(value)}`);
  const told: Record<string, string> = {
    host: originOf(server).replace(/^\w+:\/\//, ''),
    'user-agent': USER_AGENT,
    ...authorization,
    ...headers,
  };
  if (method === 'PUT' || method === 'POST') told['content-length'] = String(Buffer.byteLength(body ?? ''));
  const sign = path.includes('?') ? '&' : '?';
  const whole = search.length === 0 ? path : `${path}${sign}${search.join('&')}`;
  return transport.send({ server, method, path: whole, headers: told, body }, signal);
}
