// Every wait for the server has a bound, and each way in which it ends says what helps.
import { expect, it } from 'vitest';
import { awayText, BrokerAway } from '../../../src/many/broker.ts';
import { answerOf } from '../../../src/many/queue/answer.ts';

const reply = (message: string, more: object = {}): Error =>
  Object.assign(new Error(message), { name: 'ReplyError', ...more });

async function awayOf(given: Error): Promise<BrokerAway> {
  const away = await answerOf(() => Promise.reject(given)).catch((caught: unknown) => caught);
  if (!(away instanceof BrokerAway)) throw new Error('it is not away');
  return away;
}

it.each([
  ['NOPERM this user has no permissions', 'must be allowed'],
  ['BUSY Redis is busy running a script', 'SCRIPT KILL'],
  ['WRONGTYPE Operation against a key', 'redis-cli TYPE'],
  ['OOM command not allowed', 'maxmemory'],
  ['MISCONF Redis is configured to save', 'disk'],
  ['ERR something else', 'log of the server'],
])('%s is an answer of the server, with what helps', async (message, hint) => {
  const away = await awayOf(reply(message));
  expect(awayText(away)).toBe(`the queue answers with an error: ${message}`);
  expect(away.hint).toContain(hint);
});

it('names the key of a wrong type, and no other argument of a command', async () => {
  const wrong = reply('WRONGTYPE', { command: { name: 'hgetall', args: ['capture:lab:s.a:1', 'secret'] } });
  expect((await awayOf(wrong)).message).toBe('WRONGTYPE (capture:lab:s.a:1)');
  const denied = reply('NOPERM', { command: { name: 'auth', args: ['secret'] } });
  expect((await awayOf(denied)).message).toBe('NOPERM');
});

it('is lost when the connection broke', async () => {
  expect(awayText(await awayOf(new Error('Connection is closed.')))).toMatch(
    /^the queue cannot be reached: /,
  );
});

it('does not wait for ever', async () => {
  const away = await answerOf(() => new Promise(() => undefined), 10).catch((error: unknown) => error);
  expect(away).toMatchObject({ kind: 'silent', message: 'no answer within 0.01 s' });
});

it('leaves an error that is not of the server as it is', async () => {
  await expect(answerOf(() => Promise.reject(new TypeError('a bug')))).rejects.toThrow(TypeError);
});
