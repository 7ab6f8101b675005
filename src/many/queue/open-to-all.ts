// Whoever can write to a queue runs commands on its workers. So capture submit and capture worker warn about a server
// that lets everybody on its network in.
import { Redis } from 'ioredis';
import type { Log } from '../../log/log.ts';
import { showQueue } from '../../model/many/queue-url.ts';
import { addressOf, type Connection, passwordOf } from './connect.ts';

const ANSWER_MS = 5000;

/** Logs one warning if other machines can reach the server, and it requires no password. */
export async function warnIfOpenToAll(connection: Connection, log: Pick<Log, 'warn'>): Promise<void> {
  const { place } = connection;
  if (place.at.kind === 'socket' || isLoopback(connection)) return;
  // A given password proves nothing: the default user may need none (redis.io, "ACL").
  if (passwordOf(place) !== undefined && !(await letsInWithout(connection))) return;
  log.warn(
    `the queue ${showQueue(place)} asks for no password: whoever reaches it runs commands on each worker`,
    {
      hint: 'redis-cli CONFIG SET requirepass <password>, the same in its configuration file, and REDISCLI_AUTH=<password> here',
    },
  );
}

/** Checks the address that the name resolved to. */
function isLoopback({ redis }: Connection): boolean {
  const { remoteAddress = '' } = redis.stream;
  return /^(::ffff:)?127\.|^::1$/i.test(remoteAddress);
}

/** Returns false also if that cannot be found out. */
async function letsInWithout({ place }: Connection): Promise<boolean> {
  const stranger = new Redis({
    ...addressOf(place),
    lazyConnect: true,
    enableReadyCheck: false,
    connectTimeout: ANSWER_MS,
    commandTimeout: ANSWER_MS,
    retryStrategy: () => null,
  });
  stranger.on('error', () => undefined);
  try {
    await stranger.connect();
    await stranger.ping();
    return true;
  } catch {
    return false;
  } finally {
    stranger.disconnect();
  }
}
