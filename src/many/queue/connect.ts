// The connection to Redis or Valkey. It is opened and checked before anything else, so that a problem with the server
// is reported in one line. Later it reconnects by itself, for as long as that takes.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis, type RedisOptions } from 'ioredis';
import type { Log } from '../../log/log.ts';
import { CaptureError, reasonOf } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { type QueuePlace, showQueue } from '../../model/many/queue-url.ts';
import { type BackOff, pauseAfter } from '../../model/waiting.ts';
import { readNamedFile } from '../../native/named-file.ts';
import { hideFromOurUser } from '../../native/processes.ts';
import { answerOf } from './answer.ts';

export interface Connection {
  readonly redis: Redis;
  readonly place: QueuePlace;
  /** Undefined while connected, else the reason. */
  away(): string | undefined;
  close(): Promise<void>;
}

/** How long the first connection is retried, for a server that is just starting. */
const FIRST_MS = 10_000;
const BACK_OFF: BackOff = { firstMs: 200, mostMs: 5000 };
/** TCP keep-alive detects a peer that vanished without closing the connection (tcp(7)). */
const KEEP_ALIVE_MS = 10_000;
const CLOSE_MS = 1000;

/** Throws status 69 if the server does not exist, or cannot be used for a queue. */
export async function connect(place: QueuePlace, log: Log, signal: AbortSignal): Promise<Connection> {
  // Tasks run as our user, and must not read the queue's password.
  hideFromOurUser();
  const redis = new Redis(optionsOf(place));
  let why: string | undefined = 'it does not answer';
  let isLost = false;
  let isClosing = false;
  redis.on('error', (error: Error) => {
    why = reasonOf(error);
  });
  redis.on('ready', () => {
    why = undefined;
    if (isLost) log.info(`the queue ${showQueue(place)} is back`, { event: 'message' });
    isLost = false;
  });
  const connection: Connection = {
    redis,
    place,
    away: () => (redis.status === 'ready' ? undefined : (why ?? 'the connection was closed')),
    close: async () => {
      isClosing = true;
      const ended = redis.quit().catch(() => undefined);
      await Promise.race([ended, sleep(CLOSE_MS, undefined, { ref: false })]);
      redis.disconnect();
    },
  };
  try {
    await untilReady(connection, signal);
    await refuseBadServer(connection, log, signal);
  } catch (error) {
    redis.disconnect();
    throw error;
  }
  redis.on('close', () => {
    if (isLost || isClosing) return;
    isLost = true;
    log.warn(`the queue ${showQueue(place)} cannot be reached: what runs goes on, and nothing is started`);
  });
  return connection;
}

function optionsOf(place: QueuePlace): RedisOptions {
  const { user, database } = place;
  const password = passwordOf(place);
  return {
    ...addressOf(place),
    ...(user === undefined ? {} : { username: user }),
    ...(password === undefined ? {} : { password }),
    db: database,
    keepAlive: KEEP_ALIVE_MS,
    // BullMQ requires it: a command waits until the server is back (BullMQ, "Connections").
    maxRetriesPerRequest: null,
    retryStrategy: (times: number) => pauseAfter(BACK_OFF, times - 1),
  };
}

/** Host, port and TLS of the server, without credentials. */
export function addressOf({ at, tls, caFile }: QueuePlace): RedisOptions {
  return {
    ...(at.kind === 'socket' ? { path: at.path } : { host: at.host, port: at.port }),
    ...(tls ? { tls: caFile === undefined ? {} : { ca: readCa(caFile) } } : {}),
  };
}

/** From a variable, as redis-cli does it, because all users of the machine see the passwords on a command line. */
export function passwordOf({ password }: QueuePlace): string | undefined {
  const { REDISCLI_AUTH: fromEnvironment } = process.env;
  const found = password ?? fromEnvironment;
  return found === '' ? undefined : found;
}

function readCa(file: string): Buffer {
  try {
    return readNamedFile(file);
  } catch (error) {
    throw new CaptureError(EXIT.usage, `cannot read the certificates of --queue (ca): ${reasonOf(error)}`, {
      hint: 'name a PEM file: rediss://host:6379/name?ca=/etc/ssl/redis-ca.pem',
      cause: error,
    });
  }
}

async function untilReady({ redis, away, place }: Connection, signal: AbortSignal): Promise<void> {
  const deadline = AbortSignal.timeout(FIRST_MS);
  while (redis.status !== 'ready') {
    signal.throwIfAborted();
    const why = away() ?? '';
    // A retry cannot help.
    const isFinal = /NOAUTH|WRONGPASS|NOPERM|invalid password|ERR AUTH|certificate|ENOENT|EACCES/i.test(why);
    if (isFinal || deadline.aborted) throw cannotBeUsed(place, why);
    await sleep(LOOK_EVERY_MS, undefined, { signal });
  }
}

const LOOK_EVERY_MS = 50;

function cannotBeUsed(place: QueuePlace, why: string): CaptureError {
  return new CaptureError(EXIT.unavailable, `cannot use the queue ${showQueue(place)}: ${why}`, {
    hint: hintOf(why, place),
  });
}

function hintOf(why: string, { tls }: QueuePlace): string {
  if (/NOAUTH|WRONGPASS|invalid password|ERR AUTH/i.test(why))
    return 'give user and password: redis://user:password@host:6379/name, or REDISCLI_AUTH=password';
  if (/NOPERM/i.test(why)) return 'the user must be allowed all commands on keys that begin with capture:';
  if (/altnames/i.test(why)) return 'name the server as its certificate does: rediss://host:6379/name';
  if (/certificate/i.test(why))
    return 'name the certificates to trust: rediss://host:6379/name?ca=/path/ca.pem';
  // A server without TLS does not answer a TLS handshake. A server with TLS closes a plain connection.
  if (tls && /ETIMEDOUT|ECONNRESET|does not answer/.test(why))
    return 'does it speak TLS there? else redis://host:6379/name';
  if (!tls && why.includes('ECONNRESET')) return 'does it want TLS? rediss://host:6379/name';
  return 'is the server running, and reachable from here? redis-cli -u redis://host:6379 ping';
}

async function refuseBadServer(connection: Connection, log: Log, signal: AbortSignal): Promise<void> {
  const { redis, place } = connection;
  const text = await answerOf(() => redis.info()).catch((error: unknown) => {
    throw cannotBeUsed(place, reasonOf(error));
  });
  signal.throwIfAborted();
  const { policy, hasAppendOnly, problem } = serverFacts(text);
  if (problem !== undefined) throw cannotBeUsed(place, problem);
  if (policy !== undefined && policy !== 'noeviction')
    throw new CaptureError(
      EXIT.unavailable,
      `the queue ${showQueue(place)} may lose what is in it: its maxmemory-policy is ${policy}`,
      { hint: 'redis-cli CONFIG SET maxmemory-policy noeviction, and the same in its configuration file' },
    );
  if (!hasAppendOnly)
    log.info(
      `${showQueue(place)} keeps no append-only file: if it dies, fill it again with capture submit --again`,
      {
        hint: 'redis-cli CONFIG SET appendonly yes, and the same in its configuration file',
      },
    );
}

interface ServerFacts {
  /** Such as `noeviction`; undefined if the server does not report it. */
  readonly policy: string | undefined;
  readonly hasAppendOnly: boolean;
  /** Why the server cannot hold a queue. */
  readonly problem: string | undefined;
}

/** BullMQ requires 5.0 and recommends 6.2 (BullMQ, RedisConnection). */
const LEAST_VERSION = 6;

/** Parses INFO (redis.io, "INFO"): can this server hold a queue? */
export function serverFacts(info: string): ServerFacts {
  const fields = new Map(
    info.split(/\r?\n/).flatMap((line) => {
      const at = line.indexOf(':');
      return at < 1 ? [] : [[line.slice(0, at), line.slice(at + 1)] as const];
    }),
  );
  return {
    policy: fields.get('maxmemory_policy'),
    // A managed server may not report it, because persistence is configured elsewhere.
    hasAppendOnly: fields.get('aof_enabled') !== '0',
    problem: problemOf(fields),
  };
}

function problemOf(fields: ReadonlyMap<string, string>): string | undefined {
  const isValkey = fields.has('valkey_version');
  const version = fields.get('redis_version') ?? '';
  const major = Number(/^(\d+)\./.exec(version)?.[1] ?? LEAST_VERSION);
  if (!isValkey && major < LEAST_VERSION)
    return `it is Redis ${version}, and 6 or later, or Valkey, is needed`;
  if (fields.get('cluster_enabled') === '1') return 'it is a cluster, which spreads the keys of one queue';
  return fields.get('role') === 'slave' ? 'it is a replica, which cannot be written' : undefined;
}
