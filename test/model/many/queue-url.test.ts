import { describe, expect, it } from 'vitest';
import { isMistake } from '../../../src/model/errors.ts';
import { parseQueueUrl, type QueuePlace, showQueue } from '../../../src/model/many/queue-url.ts';

function place(text: string): QueuePlace {
  const found = parseQueueUrl(text, '--queue');
  if (isMistake(found)) throw new Error(found.message);
  return found;
}

function mistake(text: string): string {
  const found = parseQueueUrl(text, '--queue');
  if (!isMistake(found)) throw new Error(`${text} is none`);
  return found.message;
}

describe('the URL of a queue', () => {
  it('names a host, a port and a queue', () => {
    expect(place('redis://head:6380/lab')).toMatchObject({
      name: 'lab',
      at: { kind: 'tcp', host: 'head', port: 6380 },
      tls: false,
      database: 0,
    });
  });

  it('has defaults for the port, the name and the database', () => {
    expect(place('rediss://head')).toMatchObject({
      name: 'default',
      at: { kind: 'tcp', host: 'head', port: 6379 },
      tls: true,
      database: 0,
    });
  });

  it('holds user and password as URLs escape them', () => {
    expect(place('redis://ann:p%40ss%2Fword@head/lab')).toMatchObject({ user: 'ann', password: 'p@ss/word' });
    expect(place('redis://:secret@head/lab')).toMatchObject({ user: undefined, password: 'secret' });
  });

  it('names an address of IPv6 without its brackets', () => {
    expect(place('redis://[::1]:6379/lab').at).toEqual({ kind: 'tcp', host: '::1', port: 6379 });
  });

  it('names a Unix socket, whose queue stands behind it', () => {
    expect(place('redis+unix:///run/redis/redis.sock?name=lab&db=2')).toMatchObject({
      name: 'lab',
      at: { kind: 'socket', path: '/run/redis/redis.sock' },
      database: 2,
    });
  });

  it.each([
    ['lab', 'no URL'],
    ['http://head/lab', 'begins with none of'],
    ['redis:///lab', 'no host'],
    ['redis+unix://?name=lab', 'no path of a socket'],
    ['redis://head/my:lab', 'has a name'],
    ['redis://head/lab?dbs=1', "unknown 'dbs'"],
    ['redis://head/lab?db=one', 'db that is no number'],
  ])('refuses %s', (text, why) => {
    expect(mistake(text)).toContain(why);
  });

  it('repeats no password in a message', () => {
    expect(mistake('redis://ann:secret@head/my:lab')).not.toContain('secret');
    expect(showQueue(place('redis://ann:secret@head/lab?db=3'))).toBe('redis://head:6379/lab?db=3');
  });
});
