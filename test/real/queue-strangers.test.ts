// What somebody else has written into Redis, and who can: nothing of it is a command line of those who only look, and a server
// that lets everybody in is said.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BIN, openPlace, type Place, type Run, until } from '../e2e/support.ts';
import { harmIn, HOSTILE } from '../support/hostile.ts';
import { openRedis, type RedisServer } from './redis.ts';

let place: Place;
let redis: RedisServer;
/** A worker that ends when nothing is left to do. */
const workerOf = (queue: string): Run =>
  place.capture(['worker', '--queue', queue, '--notice=none', '--scratch', place.dir, '--idle-timeout=1s']);

beforeEach(() => {
  place = openPlace({ below: '/dev/shm' });
});
afterEach(async () => {
  await redis.close();
  place.close();
});

async function submit(queue: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  const words = ['--queue', queue, '--name', 'melt', '--array', '0-1', '-r', 'r', '--to', place.store];
  const run = place.capture(['submit', ...words, '--task-name=t', '--', 'sh', '-c', 'echo {index} >r'], env);
  expect(await run.status, run.stderr()).toBe(0);
  return run.stderr();
}

describe('a submission that somebody else has changed', () => {
  const KEY = 'capture:lab:submissions:s.melt';
  /** What the report of the page is answered with. */
  async function reportOf(change: (data: Record<string, unknown>) => void): Promise<number> {
    redis = await openRedis(place.dir);
    await submit(redis.url('lab'));
    const task = place.run(['--task-name=t', '--index=0', '-r', 'r'], ['sh', '-c', 'echo >r']);
    expect(await task.status, task.stderr()).toBe(0);
    const data = JSON.parse(redis.cli('HGET', KEY, 'data')) as Record<string, unknown>;
    change(data);
    redis.cli('HSET', KEY, 'data', JSON.stringify(data));
    const ui = place.capture(['queue', 'ui', '--queue', redis.url('lab')]);
    try {
      await until(() => ui.stdout().includes('/arrays'), 'the address is printed');
      const { status } = await fetch(new URL('report/melt', ui.stdout().trim()));
      return status;
    } finally {
      ui.child.kill('SIGINT');
      await ui.status;
    }
  }

  it('gives no options to those who look', async () => {
    const victim = path.join(place.dir, 'profile');
    fs.writeFileSync(victim, 'mine\n');
    const flags = [`output=${victim}`, `log-file=${victim}`];
    expect(
      await reportOf((data) => {
        data['store'] = { ...(data['store'] as object), flags };
      }),
    ).toBe(404);
    expect(fs.readFileSync(victim, 'utf8')).toBe('mine\n');
  });

  it('is shown if nothing is wrong with it', async () => {
    expect(await reportOf(() => undefined)).toBe(200);
  });
});

/** What a terminal gets of a command. */
async function onTerminal(...words: readonly string[]): Promise<string> {
  const line = [BIN, ...words].map((word) => `'${word}'`).join(' ');
  const run = place.exec(['script', '-qefc', line, '/dev/null'], { TERM: 'xterm-256color' });
  await run.status;
  return run.stdout();
}

it('is text on a terminal, whatever others have written into it', async () => {
  redis = await openRedis(place.dir);
  const queue = redis.url('lab');
  await submit(queue);
  const worker = place.capture([
    'worker',
    '--queue',
    queue,
    '--notice=none',
    '--idle-timeout=1s',
    '--has',
    'a',
  ]);
  expect(await worker.status, worker.stderr()).toBe(0);
  // Failed, running and waiting, of a worker, with reasons and unable ones; and submissions that cannot be read.
  const key = (name: string): string => `capture:lab:${name}`;
  const job = JSON.stringify({ format: 1, index: 0 });
  const fields = [
    'data',
    job,
    'opts',
    '{}',
    'timestamp',
    '1',
    'processedOn',
    '1',
    'finishedOn',
    '2',
    'atm',
    '1',
  ];
  const hostile = ['failedReason', HOSTILE, 'pb', HOSTILE, 'name', HOSTILE];
  redis.cli('HSET', key('s.melt:i0'), ...fields, ...hostile);
  redis.cli('ZADD', key('s.melt:failed'), '1', 'i0');
  redis.cli('HSET', key('s.melt:i1'), ...fields, ...hostile);
  redis.cli('LPUSH', key('s.melt:active'), 'i1');
  redis.cli('RPUSH', key('submissions:s.melt:logs'), `${HOSTILE}: ${HOSTILE}`);
  const submission = JSON.parse(redis.cli('HGET', key('submissions:s.melt'), 'data')) as object;
  const { overMs: _, ...open } = submission as { overMs?: number };
  redis.cli('HSET', key('submissions:s.melt'), 'data', JSON.stringify(open));
  for (const [id, data] of [
    [`s.${HOSTILE}`, { format: HOSTILE }],
    ['s.other', { ...open, name: 'other', taskName: HOSTILE }],
    [
      's.third',
      { ...open, name: 'third', store: { url: `file:///${HOSTILE}`, flags: [HOSTILE], unfenced: false } },
    ],
  ] as const) {
    redis.cli(
      'HSET',
      key(`submissions:${id}`),
      'data',
      JSON.stringify(data),
      'opts',
      '{}',
      'timestamp',
      '1',
      'name',
      'x',
    );
    redis.cli('LPUSH', key('submissions:wait'), id);
  }
  const lines = [
    ['status'],
    ['status', 'melt'],
    ['status', 'melt', '--json'],
    ['status', 'none'],
    ['cancel', 'other'],
    ['retry', 'third'],
    ['drain', 'none'],
  ];
  for (const words of lines) {
    const shown = await onTerminal('queue', ...words, '--queue', queue);
    expect(harmIn(shown), shown).toEqual([]);
    if (words.join(' ') === 'status melt')
      expect(shown.match(/^(?: {2}0 on|melt 0 lost with) x\\x1b\[41mred/gm), shown).toHaveLength(2);
    if (words.join(' ') === 'status') expect(shown.match(/cannot be read/g)).toHaveLength(3);
  }
});

describe('a job that is no JSON', () => {
  const key = (name: string): string => `capture:lab:${name}`;

  const NO_FIELDS = 'its options or its progress are no JSON';
  const WHY = ['its data is no JSON', NO_FIELDS, NO_FIELDS];

  it.each([
    ['a text', 'not json'],
    ['half of a list', '['],
    ['null', 'null'],
    ['an object that lacks all', '{"format":1}'],
    ['a list 100,000 deep', '['.repeat(100_000)],
  ])('stops neither a worker nor those who look, and ends once: %s', async (_, bad) => {
    const isJson = bad.startsWith('{') || bad === 'null';
    redis = await openRedis(place.dir);
    const queue = redis.url('lab');
    await submit(queue);
    // A submission, a job of a submission, a notice; each by its data, its options and its progress.
    for (const [n, fields] of [
      ['data', bad, 'opts', '{}'],
      ['data', '{}', 'opts', bad],
      ['data', '{}', 'opts', '{}', 'progress', bad],
    ].entries()) {
      const hash = ['name', 'x', 'timestamp', '1', ...fields];
      for (const [of, id] of [
        ['submissions', `s.x${n}`],
        ['notices', `melt.x${n}`],
        ['s.melt', `i${7 + n}`],
      ]) {
        redis.cli('HSET', key(`${of}:${id}`), ...hash);
        redis.cli('LPUSH', key(`${of}:wait`), `${id}`);
      }
    }
    // The worker takes the bad ones first.
    const worker = workerOf(queue);
    await until(
      () => ['r.0', 'r.1'].every((name) => fs.existsSync(path.join(place.store, name))),
      'both are done',
    );
    // Each has ended once, and says why; none waits for its lock to run out.
    await until(() => redis.cli('ZCARD', key('s.melt:failed')) === '3', 'all bad jobs have failed');
    for (const list of ['s.melt:active', 's.melt:wait', 'notices:active', 'notices:wait'])
      await until(() => redis.cli('LRANGE', key(list), '0', '-1') === '', `nothing is left in ${list}`);
    const shown = place.capture(['queue', 'status', 'melt', '--queue', queue]);
    await shown.status;
    for (const n of [0, 1, 2])
      expect(shown.stdout()).toMatch(
        new RegExp(`^ +${7 + n} .*cannot be read: ${isJson ? '' : WHY[n]}`, 'm'),
      );
    for (const words of [['status'], ['status', 'melt'], ['retry', 'melt']]) {
      const look = place.capture(['queue', ...words, '--queue', queue]);
      expect([0, 1], look.stderr()).toContain(await look.status);
      expect(look.stderr()).not.toMatch(/internal error|SyntaxError|TypeError/);
      if (words.length === 1) {
        expect(look.stdout()).toMatch(/^melt/m);
        expect(`${look.stdout()}${look.stderr()}`.match(/cannot be read/g)).toHaveLength(3);
      }
    }
    worker.child.kill('SIGTERM');
    await worker.status;
  });
});

it('a job of many MiB is not read, neither by a worker nor by those who look', async () => {
  const key = (name: string): string => `capture:lab:${name}`;
  redis = await openRedis(place.dir);
  const queue = redis.url('lab');
  await submit(queue);
  // The server drops a client that it would have to send more than this.
  redis.cli('CONFIG', 'SET', 'client-output-buffer-limit', 'normal 8mb 0 0');
  const large = `redis.call('HSET', KEYS[1], 'name', 'x', 'timestamp', '1', 'opts', '{}', ARGV[1],
    '"' .. string.rep('x', 16777216) .. '"')`;
  for (const field of ['data', 'stacktrace'])
    for (const [of, id] of [
      ['submissions', `s.${field}`],
      ['notices', `melt.${field}`],
      ['s.melt', field === 'data' ? 'i7' : 'i8'],
    ]) {
      redis.cli('EVAL', large, '1', key(`${of}:${id}`), field);
      redis.cli('LPUSH', key(`${of}:wait`), `${id}`);
    }
  redis.cli('EVAL', large, '1', key('s.melt:i9'), 'data');
  redis.cli('ZADD', key('s.melt:delayed'), '1', 'i9');
  redis.cli(
    'EVAL',
    `redis.call('LPUSH', KEYS[1], string.rep('x', 16777216))`,
    '1',
    key('submissions:s.melt:logs'),
  );
  const looks = async (): Promise<string> => {
    const said: string[] = [];
    for (const words of [['status'], ['status', 'melt']]) {
      const look = place.capture(['queue', ...words, '--queue', queue]);
      expect([0, 1], look.stderr()).toContain(await look.status);
      said.push(look.stdout(), look.stderr());
    }
    return said.join('');
  };
  expect((await looks()).match(/^.*cannot be read: it is larger than 1 MiB/gm)).toHaveLength(4);
  const worker = workerOf(queue);
  expect(await worker.status, worker.stderr()).toBe(0);
  expect(redis.cli('ZCARD', key('s.melt:failed'))).toBe('3');
  for (const n of [7, 8, 9])
    expect(await looks()).toMatch(new RegExp(`^ +${n} .*cannot be read: it is larger than 1 MiB`, 'm'));
  const retry = place.capture(['queue', 'retry', 'melt', '--queue', queue]);
  expect(await retry.status, retry.stderr()).toBe(0);
  // What is too large for others is refused at once.
  const words = ['--queue', queue, '--name', 'large', '--array', '0', '-r', 'r', '--to', place.store];
  fs.writeFileSync(place.at('tasks'), `echo ${'x'.repeat(2 ** 20)}\n`);
  const submitted = place.capture([
    'submit',
    ...words.filter((one) => !/^(--array|0)$/.test(one)),
    '--tasks',
    'tasks',
  ]);
  expect(await submitted.status).toBe(64);
  expect(submitted.stderr()).toContain('the task of index 0 is larger than 1 MiB');
}, 120_000);

it('an id of many MiB is not read, and a log of another type hides nothing', async () => {
  const key = (name: string): string => `capture:lab:${name}`;
  redis = await openRedis(place.dir);
  const queue = redis.url('lab');
  await submit(queue);
  redis.cli('CONFIG', 'SET', 'client-output-buffer-limit', 'normal 8mb 0 0');
  const long = (list: string): string =>
    redis.cli('EVAL', `redis.call('RPUSH', KEYS[1], string.rep('x', 16777216))`, '1', key(list));
  redis.cli('SADD', key('submissions:s.melt:logs'), 'x');
  long('s.melt:wait');
  const status = (): Run => place.capture(['queue', 'status', '--queue', queue]);
  const look = status();
  const looked = await look.status;
  expect([0, 1], look.stderr()).toContain(looked);
  expect(look.stdout()).toContain('melt');
  const worker = workerOf(queue);
  expect(await worker.status, worker.stderr()).toBe(0);
  expect(redis.cli('LLEN', key('s.melt:wait'))).toBe('0');
  long('submissions:wait');
  const refused = status();
  expect(await refused.status).not.toBe(0);
  expect(refused.stderr()).toContain('submissions: holds an id of more than 1 KiB');
  expect(refused.stderr()).not.toContain('internal error');
}, 120_000);

describe('a server that asks for no password', () => {
  const address = Object.values(os.networkInterfaces())
    .flatMap((one) => one ?? [])
    .find(({ internal, family }) => !internal && family === 'IPv4')?.address;
  const OPEN = /warning: the queue .* asks for no password: whoever reaches it runs commands/g;

  async function warningsOf(queue: string, env: NodeJS.ProcessEnv = {}): Promise<readonly number[]> {
    const said = await submit(queue, env);
    const worker = place.capture(['worker', '--queue', queue, '--notice=none', '--idle-timeout=1s'], env);
    expect(await worker.status, worker.stderr()).toBe(0);
    return [said, worker.stderr()].map((text) => text.match(OPEN)?.length ?? 0);
  }

  it.skipIf(address === undefined)('is said by submit and by the worker, if others reach it', async () => {
    redis = await openRedis(place.dir, ['--bind', '0.0.0.0', '--protected-mode', 'no']);
    expect(await warningsOf(`redis://${address}:${redis.port}/lab`)).toEqual([1, 1]);
  });

  it.skipIf(address === undefined)('is said also to a user who has one', async () => {
    redis = await openRedis(place.dir, ['--bind', '0.0.0.0', '--protected-mode', 'no']);
    const env = { REDISCLI_AUTH: 's3cret' };
    const queue = `redis://cap@${address}:${redis.port}/lab`;
    redis.cli('ACL', 'SETUSER', 'cap', 'on', '>s3cret', '~*', '&*', '+@all');
    expect(await warningsOf(queue, env)).toEqual([1, 1]);
    redis.cli('ACL', 'SETUSER', 'default', 'off');
    redis.cli('-u', `redis://cap:s3cret@127.0.0.1:${redis.port}`, 'FLUSHALL');
    fs.rmSync(place.store, { recursive: true });
    expect(await warningsOf(queue, env)).toEqual([0, 0]);
  });

  it.skipIf(address === undefined)('is not said of one that asks everybody', async () => {
    redis = await openRedis(place.dir, ['--bind', '0.0.0.0', '--requirepass', 's3cret']);
    const queue = `redis://${address}:${redis.port}/lab`;
    expect(await warningsOf(queue, { REDISCLI_AUTH: 's3cret' })).toEqual([0, 0]);
  });

  it('is not said on loopback', async () => {
    redis = await openRedis(place.dir);
    expect(await warningsOf(`redis://localhost:${redis.port}/lab`)).toEqual([0, 0]);
  });
});
