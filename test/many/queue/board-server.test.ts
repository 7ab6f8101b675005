// Whom `capture queue ui` answers, and what its list says. The pages of bull-board are seen in test/real.
import { request } from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type BoardServer, openBoardServer } from '../../../src/many/queue/board-server.ts';
import type { Listed } from '../../../src/many/broker.ts';
import type { QueuePlace } from '../../../src/model/many/queue-url.ts';
import { seen } from '../submissions.ts';

interface Answer {
  readonly status: number | undefined;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly text: string;
}

let server: BoardServer;
let redis: Redis;
let listed: () => Promise<readonly Listed[]>;

beforeEach(async () => {
  // Nobody asks it.
  redis = new Redis({ lazyConnect: true });
  listed = () => Promise.resolve([]);
  server = await openBoardServer({
    connection: {
      redis,
      place: { name: 'lab' } as QueuePlace,
      away: () => undefined,
      close: () => Promise.resolve(),
    },
    broker: {
      place: 'redis://head/lab',
      list: () => listed(),
      running: () => Promise.resolve([]),
      failed: () => Promise.resolve([]),
      workers: () => Promise.resolve([]),
      unable: () => Promise.resolve([]),
    },
    port: 0,
    boardFiles: path.dirname(createRequire(import.meta.url).resolve('@bull-board/ui/package.json')),
    report: ({ name }) =>
      name === 'melt' ? Promise.resolve('a report') : Promise.reject(new Error('no disk')),
  });
});
afterEach(async () => {
  await server.close();
  redis.disconnect();
});

/** As a browser would: the host in the header is its own matter. */
function ask(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> {
  const { hostname, port } = new URL(server.url);
  return new Promise((resolve, reject) => {
    request({ hostname, port, path, method, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.once('end', () => resolve({ status: response.statusCode, headers: response.headers, text }));
    })
      .once('error', reject)
      .end();
  });
}

/** Of somebody who has the address. */
async function known(path: string, method = 'GET'): Promise<Answer> {
  const answer = await ask(`/${token()}${path}`, {}, method);
  expect(answer.headers['set-cookie']).toBeUndefined();
  return answer;
}

function token(): string {
  const { pathname } = new URL(server.url);
  expect(pathname).toMatch(/^\/[\w-]{32}\/arrays$/);
  return pathname.split('/')[1] ?? '';
}

const one = (...of: Parameters<typeof seen>): Listed => ({ kind: 'submission', ...seen(...of) });

describe('the page of a queue', () => {
  beforeEach(() => {
    listed = () => Promise.resolve([one({ name: 'secret' }, { waiting: 1 })]);
  });

  it.each([
    ['/'],
    ['/arrays'],
    ['/x/arrays'],
    ['//arrays'],
    ['/board/api/queues'],
    ['/x/board/static/favicon.ico'],
    ['/report/secret'],
    ['/nothing'],
  ])('is refused without the token: %s', async (path) => {
    const { status, text, headers: got } = await ask(path);
    expect({ status, text }).toEqual({
      status: 403,
      text: 'use the address that capture queue ui has printed',
    });
    expect(got['set-cookie']).toBeUndefined();
  });

  it('is refused if the token is another one, or stands elsewhere than in the path, as a browser hands cookies to all ports', async () => {
    for (const path of [
      '/',
      '/arrays',
      `/?token=${token()}`,
      `/arrays?token=${token()}`,
      `/x/${token()}/arrays`,
      `/${token()}x/arrays`,
      `/${token().slice(1)}/arrays`,
      `/${token().replaceAll(/./g, 'x')}/arrays`,
    ])
      for (const cookie of [
        token(),
        `capture_queue=${token()}`,
        `capture_queue_${new URL(server.url).port}=${token()}`,
      ])
        expect(await ask(path, { cookie, referer: server.url }), path).toMatchObject({ status: 403 });
  });

  it('is refused under a name that is not of this machine, also with the token', async () => {
    const { pathname } = new URL(server.url);
    for (const host of ['evil.example', 'evil.example:80', '127.0.0.1.evil.example', '[::1]']) {
      const { status, text } = await ask(pathname, { host });
      expect({ status, text }, host).toEqual({ status: 403, text: 'wrong host' });
    }
    expect(await ask(pathname, { host: 'localhost:80' })).toMatchObject({ status: 200 });
  });

  it.each(['POST', 'PUT', 'PATCH', 'DELETE'])('changes nothing: %s is refused', async (method) => {
    for (const path of ['/board/api/queues/secret/retry/failed', '/arrays'])
      expect(await known(path, method)).toMatchObject({ status: 405 });
  });

  it('loads nothing from elsewhere, stands in no frame, and tells its address to nobody', async () => {
    const { status, headers } = await known('/arrays');
    expect(status).toBe(200);
    expect(headers['content-security-policy']).toContain("default-src 'self';");
    expect(headers).toMatchObject({ 'x-frame-options': 'DENY', 'referrer-policy': 'no-referrer' });
  });
});

describe('the list of submissions', () => {
  it('says what capture queue status says, with the way to jobs and report', async () => {
    listed = () =>
      Promise.resolve([
        one({ name: 'solve', after: ['melt'], submittedMs: 2000 }, { waiting: 10 }),
        one({ name: 'mesh', capabilities: ['gpu'], submittedMs: 3000 }, { waiting: 10 }),
        one({}, { failed: 4 }),
        { kind: 'unreadable', name: 'later', why: 'its format is 2', format: 2 },
      ]);
    const { text } = await known('/arrays');
    const plain = text.replaceAll(/<style>[^]*<\/style>|<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
    expect(plain).toContain('Queue redis://head/lab');
    expect(plain).toContain(
      ' melt report failed 0 0 4 6 lmp file:///shared/store solve report after melt 10 0 0 0 ',
    );
    expect(plain).toContain('later: cannot be read: its format is 2');
    expect(plain).toContain('no worker has gpu: mesh cannot begin');
    expect(plain).toContain('melt : tried again by capture queue retry melt');
    expect(text).toContain('<a href="board/queue/melt">melt</a>');
    expect(text).toContain('<a href="report/melt">report</a>');
  });

  it('takes no text for a part of the page', async () => {
    const url = 's3://lab/<script>alert(1)</script>';
    listed = () => Promise.resolve([one({ store: { url, flags: [], unfenced: false } })]);
    expect((await known('/arrays')).text).not.toContain('<script');
  });

  it('leads to the report, or says why there is none', async () => {
    listed = () => Promise.resolve([one(), one({ name: 'other' })]);
    expect(await known('/report/melt')).toMatchObject({ status: 200, text: 'a report' });
    expect(await known('/report/other')).toMatchObject({ status: 502, text: 'no report: no disk' });
    expect(await known('/report/none')).toMatchObject({ status: 404, text: 'no such submission' });
  });

  it('says that the queue cannot be reached', async () => {
    // Of another program of the build.
    class BrokerAway extends Error {
      override readonly name = 'BrokerAway';
    }
    listed = () => Promise.reject(new BrokerAway('ECONNREFUSED'));
    const away = { status: 503, text: 'the queue cannot be reached: ECONNREFUSED' };
    const answer = await known('/arrays');
    expect(answer).toMatchObject(away);
    // The page comes back with it.
    expect(answer.headers['refresh']).toBe('10');
    expect(await known('/board/api/queues')).toMatchObject(away);
  });
});
