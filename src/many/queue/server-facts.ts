// What INFO says of a server (redis.io, "INFO"): whether a queue can stand in it. Pure.

export interface ServerFacts {
  /** `noeviction`; undefined if it is not told. */
  readonly policy: string | undefined;
  readonly hasAppendOnly: boolean;
  /** Why nothing can be queued there. */
  readonly problem: string | undefined;
}

/** BullMQ's own minimum is 5.0, and it recommends 6.2 (BullMQ, RedisConnection). */
const LEAST_VERSION = 6;

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
