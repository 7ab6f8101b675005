// The connection to Redis or Valkey: opened and looked at before anything else is done, so that what is wrong with the server
// is said in one line; later it comes back by itself, as long as that takes.
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis, type RedisOptions } from 'ioredis';
import type { Log } from '../../log/log.ts';
import { CaptureError, reasonOf } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { type QueuePlace, showQueue } from '../../model/many/queue-url.ts';
import { type BackOff, pauseAfter } from '../../model/waiting.ts';
import { hideFromOurUser } from '../../native/processes.ts';

export interface Connection {
  readonly redis: Redis;
  readonly place: QueuePlace;
  /** Undefined while it stands, else why not. */
  away(): string | undefined;
  close(): Promise<void>;
}

/** For a server that is just being started. */
const FIRST_MS = 10_000;
const BACK_OFF: BackOff = { firstMs: 200, mostMs: 5000 };
/** A connection whose peer vanished without a word: nothing comes back on it (tcp(7)). */
const KEEP_ALIVE_MS = 10_000;
const CLOSE_MS = 1000;

/** Throws status 69 if there is no such server, or it cannot be used for a queue. */
export async function connect(place: QueuePlace, log: Log, signal: AbortSignal): Promise<Connection> {
  // Tasks run as our user, and the password of the queue is not for them.
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
    // BullMQ wants it so: a command waits until the server is back (BullMQ, "Connections").
    maxRetriesPerRequest: null,
    retryStrategy: (times: number) => pauseAfter(BACK_OFF, times - 1),
  };
}

/** Where the server is, and how it is spoken to; nothing of who we are. */
export function addressOf({ at, tls, caFile }: QueuePlace): RedisOptions {
  return {
    ...(at.kind === 'socket' ? { path: at.path } : { host: at.host, port: at.port }),
    ...(tls ? { tls: caFile === undefined ? {} : { ca: readCa(caFile) } } : {}),
  };
}

/** As redis-cli has it: a password on a command line is seen by all users of the machine. */
export function passwordOf({ password }: QueuePlace): string | undefined {
  const { REDISCLI_AUTH: fromEnvironment } = process.env;
  const found = password ?? fromEnvironment;
  return found === '' ? undefined : found;
}

function readCa(file: string): Buffer {
  try {
    return fs.readFileSync(file);
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
    // No later try changes that.
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
  // To who speaks TLS another server says nothing; one that waits for TLS breaks off.
  if (tls && /ETIMEDOUT|ECONNRESET|does not answer/.test(why))
    return 'does it speak TLS there? else redis://host:6379/name';
  if (!tls && why.includes('ECONNRESET')) return 'does it want TLS? rediss://host:6379/name';
  return 'is the server running, and reachable from here? redis-cli -u redis://host:6379 ping';
}

async function refuseBadServer(connection: Connection, log: Log, signal: AbortSignal): Promise<void> {
  const { redis, place } = connection;
  const text = await redis.info().catch((error: unknown) => {
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
      `${showQueue(place)} keeps no append-only file: if it dies, capture submit --again fills it anew`,
      {
        hint: 'redis-cli CONFIG SET appendonly yes, and the same in its configuration file',
      },
    );
}

interface ServerFacts {
  /** `noeviction`; undefined if it is not told. */
  readonly policy: string | undefined;
  readonly hasAppendOnly: boolean;
  /** Why nothing can be queued there. */
  readonly problem: string | undefined;
}

/** BullMQ's own minimum is 5.0, and it recommends 6.2 (BullMQ, RedisConnection). */
const LEAST_VERSION = 6;

/** What INFO says of a server (redis.io, "INFO"): whether a queue can stand in it. */
export function serverFacts(info: string): ServerFacts {
  const fields = new Map(
    info.split(/\r?\n/).flatMap((line) => {
      const at = line.indexOf(':');
      return at < 1 ? [] : [[line.slice(0, at), line.slice(at + 1)] as const];
    }),
  );
  return {
    policy: fields.get('maxmemory_policy'),
    // A server that is managed may not tell: then it says what it does elsewhere.
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
