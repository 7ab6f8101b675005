// EC2's metadata service as a local server speaks it, version 2: no token, no answer.
import { afterEach, describe, expect, test } from 'vitest';
import { closeAll, listenTo, serve, until, type Listening } from './listening.ts';
import type { Asked, MetadataServer, Reply } from './metadata-server.ts';

const TOKEN = '/latest/api/token';
const ACTION = '/latest/meta-data/spot/instance-action';
const REBALANCE = '/latest/meta-data/events/recommendations/rebalance';
const AT = '2026-03-01T08:22:00Z';
const TERMINATE = JSON.stringify({ action: 'terminate', time: AT });

afterEach(closeAll);

interface Ec2 {
  readonly server: MetadataServer;
  /** What stands under a path; 404 else. */
  readonly stands: Map<string, Reply>;
  /** The tokens that are good now. */
  readonly tokens: Set<string>;
}

async function ec2(): Promise<Ec2> {
  const stands = new Map<string, Reply>();
  const tokens = new Set<string>();
  let given = 0;
  const answer = ({ method, url, headers }: Asked): Reply => {
    if (method === 'PUT' && url === TOKEN) {
      // A forwarded question gets no token, nor one without a time to live (400).
      if (headers['x-forwarded-for'] !== undefined) return { status: 403 };
      if (!/^\d+$/.test(String(headers['x-aws-ec2-metadata-token-ttl-seconds']))) return { status: 400 };
      const token = `AQAE-token-${(given += 1)}==`;
      tokens.add(token);
      return { body: token };
    }
    if (!tokens.has(String(headers['x-aws-ec2-metadata-token']))) return { status: 401 };
    return (method === 'GET' && stands.get(url)) || { status: 404, body: '<?xml version="1.0"?><html/>' };
  };
  return { server: await serve(answer), stands, tokens };
}

function listen(server: MetadataServer, env: NodeJS.ProcessEnv = {}): Listening {
  return listenTo({ kind: 'ec2' }, { env: { AWS_EC2_METADATA_SERVICE_ENDPOINT: server.url, ...env } });
}

/** After this nothing that was there before can be news any more. */
async function askedAgain(server: MetadataServer, times = 3): Promise<void> {
  const before = server.count(REBALANCE);
  await until(() => expect(server.count(REBALANCE)).toBeGreaterThanOrEqual(before + times));
}

describe('the EC2 source', () => {
  test('tells of an interruption once, with its instant, however often it is repeated', async () => {
    const { server, stands } = await ec2();
    const heard = listen(server);
    await askedAgain(server);
    expect(heard.told).toEqual([]);
    stands.set(ACTION, { body: TERMINATE });
    await until(() => expect(heard.told).toHaveLength(1));
    await askedAgain(server);
    expect(heard.told).toEqual([
      { source: 'ec2', kind: 'stop', atMs: Date.parse(AT), what: `EC2 terminates this instance at ${AT}` },
    ]);
    expect(heard.withdrawn).toEqual([]);
    expect(heard.said).toEqual([]);
    expect(server.asked[0]).toMatchObject({
      method: 'PUT',
      url: TOKEN,
      headers: { 'x-aws-ec2-metadata-token-ttl-seconds': '21600' },
    });
    expect(server.count(TOKEN)).toBe(1);
  });

  test.each([
    ['stop', 'stops'],
    ['hibernate', 'hibernates'],
  ])('takes %s for an end as well', async (action, verb) => {
    const { server, stands } = await ec2();
    stands.set(ACTION, { body: JSON.stringify({ action, time: AT }) });
    const heard = listen(server);
    await until(() => expect(heard.told[0]?.what).toBe(`EC2 ${verb} this instance at ${AT}`));
    expect(heard.told[0]?.kind).toBe('stop');
  });

  test('tells of an instant in the past as it is', async () => {
    const { server, stands } = await ec2();
    stands.set(ACTION, { body: JSON.stringify({ action: 'terminate', time: '2015-01-05T18:02:00Z' }) });
    const heard = listen(server);
    await until(() => expect(heard.told).toMatchObject([{ atMs: Date.UTC(2015, 0, 5, 18, 2) }]));
  });

  test.each([
    ['no time', {}],
    ['a time that is none', { time: 'soon' }],
  ])('tells of an interruption with %s, without an instant', async (_, time) => {
    const { server, stands } = await ec2();
    stands.set(ACTION, { body: JSON.stringify({ action: 'stop', ...time }) });
    const heard = listen(server);
    await until(() => expect(heard.told).toMatchObject([{ kind: 'stop', atMs: undefined }]));
  });

  test('withdraws once what is gone, and tells it again when it comes again', async () => {
    const { server, stands } = await ec2();
    stands.set(ACTION, { body: TERMINATE });
    const heard = listen(server);
    await until(() => expect(heard.told).toHaveLength(1));
    stands.delete(ACTION);
    await until(() => expect(heard.withdrawn).toHaveLength(1));
    await askedAgain(server);
    expect(heard.withdrawn).toEqual(heard.told);
    stands.set(ACTION, { body: TERMINATE });
    await until(() => expect(heard.told).toHaveLength(2));
  });

  test('tells of a new instant before it withdraws the old one', async () => {
    const { server, stands } = await ec2();
    stands.set(ACTION, { body: TERMINATE });
    const heard = listen(server);
    await until(() => expect(heard.told).toHaveLength(1));
    stands.set(ACTION, { body: JSON.stringify({ action: 'terminate', time: '2026-03-01T08:25:00Z' }) });
    await until(() => expect(heard.withdrawn).toHaveLength(1));
    expect(heard.order).toEqual([
      `+ EC2 terminates this instance at ${AT}`,
      '+ EC2 terminates this instance at 2026-03-01T08:25:00Z',
      `- EC2 terminates this instance at ${AT}`,
    ]);
  });

  test('takes a rebalance recommendation for advice, which ends nothing', async () => {
    const { server, stands } = await ec2();
    stands.set(REBALANCE, { body: JSON.stringify({ noticeTime: AT }) });
    const heard = listen(server);
    await until(() => expect(heard.told).toMatchObject([{ kind: 'advice', atMs: undefined }]));
    stands.set(ACTION, { body: TERMINATE });
    await until(() => expect(heard.told[1]).toMatchObject({ kind: 'stop', atMs: Date.parse(AT) }));
    expect(heard.withdrawn).toEqual([]);
  });

  test('gets a new token when the old one has ended, and misses nothing', async () => {
    const { server, stands, tokens } = await ec2();
    const heard = listen(server);
    await askedAgain(server);
    tokens.clear();
    stands.set(ACTION, { body: TERMINATE });
    await until(() => expect(heard.told).toHaveLength(1));
    expect(server.count(TOKEN)).toBe(2);
    expect(heard.said).toEqual([]);
  });

  test.each([
    ['no JSON', 'terminate'],
    ['an unknown action', JSON.stringify({ action: 'explode', time: AT })],
    ['more than 64 KiB', JSON.stringify({ action: 'terminate', time: AT, more: 'x'.repeat(70_000) })],
  ])('takes no notice of %s, and hears the next one', async (name, body) => {
    const { server, stands } = await ec2();
    stands.set(ACTION, { body });
    const heard = listen(server);
    await askedAgain(server);
    expect(heard.told).toEqual([]);
    expect(heard.said).toEqual(
      name.startsWith('more') ? [] : [expect.stringMatching(/^warn: .*makes no sense/)],
    );
    stands.set(ACTION, { body: TERMINATE });
    await until(() => expect(heard.told).toHaveLength(1));
  });

  test.each([410, 429, 500, 503, 302])('lets stand what stood when the answer is %i', async (status) => {
    const { server, stands } = await ec2();
    stands.set(ACTION, { body: TERMINATE });
    const heard = listen(server);
    await until(() => expect(heard.told).toHaveLength(1));
    stands.set(ACTION, { status, headers: { location: '/elsewhere' } });
    await askedAgain(server);
    expect(heard.withdrawn).toEqual([]);
    expect(server.count('/elsewhere')).toBe(0);
  });

  test('asks on after a service that was away for a while', async () => {
    const { server, stands, tokens } = await ec2();
    const heard = listen(server);
    await askedAgain(server);
    const { answer } = server;
    server.answer = async () => Promise.reject(new Error('cut'));
    await askedAgain(server);
    tokens.clear();
    server.answer = answer;
    stands.set(ACTION, { body: TERMINATE });
    await until(() => expect(heard.told).toHaveLength(1));
  });
});

describe('where EC2 cannot be heard', () => {
  test('a hop limit ends the source after three tries, with one line that says what to do', async () => {
    const server = await serve(() => 'silent');
    const env = { AWS_EC2_METADATA_SERVICE_ENDPOINT: server.url };
    const heard = listenTo({ kind: 'ec2' }, { env, pace: { timeoutMs: 30 } });
    await until(() => expect(heard.said).toHaveLength(1));
    expect(heard.said[0]).toMatch(
      /^warn: no notices from EC2: .*no token \(no answer within 30 ms\)\ntry: .*hop-limit 2$/,
    );
    await until(() => expect(server.asked.map(({ url }) => url)).toEqual([TOKEN, TOKEN, TOKEN]));
  });

  test('nobody there is told in passing when nobody named the source', async () => {
    const server = await serve(() => 'silent');
    await server.close();
    const heard = listenTo({ kind: 'auto' }, { env: { AWS_EC2_METADATA_SERVICE_ENDPOINT: server.url } });
    await until(() => expect(heard.said).toHaveLength(2));
    expect(heard.said[1]).toMatch(/^info: no notices from EC2: .*\(ECONNREFUSED\)/);
  });

  test('a service that is switched off is asked once', async () => {
    const server = await serve(() => ({ status: 403 }));
    const heard = listen(server);
    await until(() => expect(heard.said).toEqual([expect.stringContaining('no token (http 403)')]));
    expect(server.asked).toHaveLength(1);
  });

  test('a token that would forge a header is none', async () => {
    const server = await serve(() => ({ body: 'a\r\nx: y' }));
    const heard = listen(server);
    await until(() => expect(heard.said).toHaveLength(1));
    expect(server.asked).toHaveLength(1);
  });

  test.each([
    ['AWS_EC2_METADATA_DISABLED', 'true', /DISABLED is set$/],
    ['AWS_EC2_METADATA_SERVICE_ENDPOINT', 'over there', /ENDPOINT 'over there' is no http address$/],
    ['AWS_EC2_METADATA_SERVICE_ENDPOINT', 'https://127.0.0.1:1', /is no http address$/],
  ])('%s=%s is obeyed without a question', async (name, value, message) => {
    const { server } = await ec2();
    const heard = listen(server, { [name]: value });
    await until(() => expect(heard.said).toEqual([expect.stringMatching(message)]));
    expect(server.asked).toEqual([]);
  });

  test('AWS_EC2_METADATA_DISABLED=false switches nothing off', async () => {
    const { server } = await ec2();
    const heard = listen(server, { AWS_EC2_METADATA_DISABLED: 'false' });
    await askedAgain(server);
    expect(heard.said).toEqual([]);
  });
});
