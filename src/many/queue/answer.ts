// Every wait for the server goes through here, closing included: it has a bound, and says why there was no good answer.
import { setTimeout as sleep } from 'node:timers/promises';
import { reasonOf } from '../../model/errors.ts';
import { BrokerAway } from '../broker.ts';

/** The longest time that one call may take. A server that hangs must not block a worker. */
const ANSWER_MS = 10_000;

/** Rejects with a {@link BrokerAway} if there was no answer in time, or none that says what was asked. */
export async function answerOf<T>(act: () => Promise<T>, boundMs = ANSWER_MS): Promise<T> {
  const timeout = new AbortController();
  const late = sleep(boundMs, undefined, timeout).then(() => {
    throw new BrokerAway(`no answer within ${boundMs / 1000} s`, {
      kind: 'silent',
      hint: 'is the server stopped or overloaded? redis-cli -u redis://host:6379 ping',
    });
  });
  late.catch(() => undefined);
  try {
    return await Promise.race([act(), late]);
  } catch (error) {
    throw awayOf(error) ?? error;
  } finally {
    timeout.abort();
  }
}

/** Undefined if the error does not come from the server or the connection. */
function awayOf(error: unknown): BrokerAway | undefined {
  if (!(error instanceof Error) || error instanceof BrokerAway) return undefined;
  if (error.name === 'ReplyError')
    return new BrokerAway(withKey(error), { kind: 'refused', hint: hintOf(error.message) });
  const isLost = /connection|ECONN|EPIPE|ETIMEDOUT|LOADING|READONLY|OOM/i.test(error.message);
  return isLost ? new BrokerAway(reasonOf(error)) : undefined;
}

/** A key has another type than BullMQ gave it (redis.io, "WRONGTYPE"). Only this key is broken. */
export function isWrongType(error: unknown): error is Error {
  return error instanceof Error && error.message.includes('WRONGTYPE');
}

/** How to find and remove a key of a wrong type. */
export const WRONG_TYPE_HINT =
  'another program has written a key of this queue: redis-cli TYPE <key> shows its type, DEL <key> removes it';

const HINTS: readonly (readonly [code: RegExp, hint: string])[] = [
  [/WRONGTYPE/, WRONG_TYPE_HINT],
  [/NOPERM/, 'the user must be allowed all commands on keys that begin with capture:'],
  [/BUSY/, 'a script of another program blocks the server: redis-cli SCRIPT KILL'],
  [/OOM/, 'the server is full: raise its maxmemory'],
  [/MISCONF/, 'the server cannot write its files: is its disk full?'],
  [/READONLY/, 'the server has become a replica: name the server that can be written'],
];

function hintOf(message: string): string {
  return HINTS.find(([code]) => code.test(message))?.[1] ?? 'the log of the server may say more';
}

/** ioredis adds the command to the error. Its other arguments may be data of tasks. */
function withKey(error: Error): string {
  const { command } = error as { command?: { name?: unknown; args?: readonly unknown[] } };
  const key = command?.args?.[0];
  const isOurs = typeof key === 'string' && key.startsWith('capture:') && /WRONGTYPE/.test(error.message);
  return isOurs ? `${error.message} (${key})` : error.message;
}
