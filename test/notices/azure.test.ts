// Azure's scheduled events as a local server speaks them: one list for a whole set of machines.
import { afterEach, describe, expect, test } from 'vitest';
import { closeAll, listenTo, serve, until, type Listening } from './listening.ts';
import type { Asked, MetadataServer, Reply } from './metadata-server.ts';

const NAME = '/metadata/instance/compute/name?api-version=2021-02-01&format=text';
const EVENTS = '/metadata/scheduledevents?api-version=2020-07-01';
const MACHINE = 'workers_3';
const ID = 'f020ba2e-3bc0-4c40-a10b-86575a9eabd5';
const NOT_BEFORE = 'Mon, 19 Sep 2016 18:29:47 GMT';
const AT_MS = Date.UTC(2016, 8, 19, 18, 29, 47);

afterEach(closeAll);

type Event = Record<string, unknown>;

function event(more: Event = {}): Event {
  return {
    EventId: ID,
    EventStatus: 'Scheduled',
    EventType: 'Preempt',
    ResourceType: 'VirtualMachine',
    Resources: [MACHINE],
    NotBefore: NOT_BEFORE,
    Description: '',
    EventSource: 'Platform',
    DurationInSeconds: -1,
    ...more,
  };
}

interface Azure {
  readonly server: MetadataServer;
  /** The list from now on. */
  schedule(...events: readonly unknown[]): void;
  /** What was approved, one text for each question. */
  approved(): readonly string[];
}

async function azure(...events: readonly unknown[]): Promise<Azure> {
  let incarnation = 1;
  let list = events;
  const answer = ({ method, url, headers }: Asked): Reply => {
    if (headers['metadata'] !== 'true' || headers['x-forwarded-for'] !== undefined) return { status: 400 };
    if (url === NAME) return { body: MACHINE };
    if (url !== EVENTS) return { status: 404 };
    if (method === 'POST') return { status: 200 };
    return { body: JSON.stringify({ DocumentIncarnation: incarnation, Events: list }) };
  };
  const server = await serve(answer);
  return {
    server,
    schedule: (...now) => {
      incarnation += 1;
      list = now;
    },
    approved: () =>
      server.asked.filter(({ method, url }) => method === 'POST' && url === EVENTS).map(({ body }) => body),
  };
}

function listen({ server }: Azure): Listening {
  return listenTo({ kind: 'azure' }, { env: { CAPTURE_AZURE_METADATA_ENDPOINT: server.url } });
}

async function askedAgain({ server }: Azure): Promise<void> {
  const before = server.count(EVENTS);
  await until(() => expect(server.count(EVENTS)).toBeGreaterThanOrEqual(before + 3));
}

describe('the Azure source', () => {
  test('tells of an eviction once, with its instant, and approves it only when all is done', async () => {
    const cloud = await azure();
    const heard = listen(cloud);
    await askedAgain(cloud);
    cloud.schedule(event());
    await until(() => expect(heard.told).toHaveLength(1));
    await askedAgain(cloud);
    const what = 'Azure evicts this machine at 2016-09-19T18:29:47Z';
    expect(heard.told).toEqual([{ source: 'azure', kind: 'stop', atMs: AT_MS, what }]);
    expect(cloud.approved()).toEqual([]);
    await heard.done();
    expect(cloud.approved()).toEqual([JSON.stringify({ StartRequests: [{ EventId: ID }] })]);
  });

  test.each([
    ['Terminate', 'deletes'],
    ['Redeploy', 'moves'],
    ['Reboot', 'restarts'],
  ])('tells of %s', async (EventType, verb) => {
    const cloud = await azure(event({ EventType }));
    const heard = listen(cloud);
    await until(() => expect(heard.told[0]?.what).toContain(`Azure ${verb} this machine`));
  });

  test.each([
    ['a pause of seconds', { EventType: 'Freeze' }],
    ['an event of other machines', { Resources: ['workers_1', 'workers_33'] }],
    ['an event of nobody', { Resources: [] }],
  ])('lets pass %s', async (_, more) => {
    const cloud = await azure(event(more));
    const heard = listen(cloud);
    await askedAgain(cloud);
    expect(heard.told).toEqual([]);
    await heard.done();
    expect(cloud.approved()).toEqual([]);
    expect(heard.said).toEqual([]);
  });

  test('tells of two events for the same instant once, and approves both', async () => {
    const cloud = await azure(event(), event({ EventId: 'another' }));
    const heard = listen(cloud);
    await askedAgain(cloud);
    expect(heard.told).toHaveLength(1);
    await heard.done();
    expect(cloud.approved()).toEqual([
      JSON.stringify({ StartRequests: [{ EventId: ID }, { EventId: 'another' }] }),
    ]);
  });

  test('finds its name among others, in any case, and approves nothing over their heads', async () => {
    const cloud = await azure(event({ Resources: ['workers_1', 'WORKERS_3'] }));
    const heard = listen(cloud);
    await until(() => expect(heard.told).toHaveLength(1));
    await heard.done();
    expect(cloud.approved()).toEqual([]);
  });

  test('leaves the approval to the last task on this machine', async () => {
    const cloud = await azure(event());
    const first = listen(cloud);
    const second = listen(cloud);
    const third = listen(cloud);
    await until(() => expect([first, second, third].map(({ told }) => told.length)).toEqual([1, 1, 1]));
    await first.done();
    expect(cloud.approved()).toEqual([]);
    // One that ends without being done, as a crashed process does, is no neighbour any more.
    second.close();
    await third.done();
    expect(cloud.approved()).toHaveLength(1);
  });

  test('does not take what listens to another service for a neighbour', async () => {
    const [cloud, other] = [await azure(event()), await azure(event())];
    const [heard, elsewhere] = [listen(cloud), listen(other)];
    await until(() => expect([heard.told.length, elsewhere.told.length]).toEqual([1, 1]));
    await heard.done();
    expect(cloud.approved()).toHaveLength(1);
    expect(other.approved()).toEqual([]);
  });

  test('keeps the instant of an event that has started, and tells it no second time', async () => {
    const cloud = await azure(event());
    const heard = listen(cloud);
    await until(() => expect(heard.told).toHaveLength(1));
    cloud.schedule(event({ EventStatus: 'Started', NotBefore: '' }));
    await askedAgain(cloud);
    expect(heard.told).toHaveLength(1);
    expect(heard.withdrawn).toEqual([]);
    await heard.done();
    expect(cloud.approved()).toEqual([]);
  });

  test('tells of an event that was never scheduled, without an instant', async () => {
    const cloud = await azure(event({ EventStatus: 'Started', NotBefore: '' }));
    const heard = listen(cloud);
    await until(() => expect(heard.told).toMatchObject([{ kind: 'stop', atMs: undefined }]));
  });

  test('withdraws once an event that Azure has cancelled', async () => {
    const cloud = await azure(event());
    const heard = listen(cloud);
    await until(() => expect(heard.told).toHaveLength(1));
    cloud.schedule();
    await until(() => expect(heard.withdrawn).toEqual(heard.told));
    await askedAgain(cloud);
    expect(heard.withdrawn).toHaveLength(1);
    await heard.done();
    expect(cloud.approved()).toEqual([]);
  });

  test('hears a new event although the incarnation is an old one', async () => {
    const cloud = await azure();
    const heard = listen(cloud);
    await askedAgain(cloud);
    const { answer } = cloud.server;
    cloud.server.answer = (asked) =>
      asked.url === EVENTS
        ? { body: JSON.stringify({ DocumentIncarnation: 1, Events: [event()] }) }
        : answer(asked);
    await until(() => expect(heard.told).toHaveLength(1));
  });

  test.each([
    ['no JSON', 'Service Unavailable'],
    ['a list that is none', JSON.stringify({ DocumentIncarnation: 1, Events: {} })],
    ['an event without a name', JSON.stringify({ Events: [{ EventType: 'Preempt' }] })],
  ])('warns once of %s, lets stand what stood, and goes on', async (_, body) => {
    const cloud = await azure(event());
    const heard = listen(cloud);
    await until(() => expect(heard.told).toHaveLength(1));
    const { answer } = cloud.server;
    cloud.server.answer = () => ({ body });
    await askedAgain(cloud);
    cloud.server.answer = answer;
    expect(heard.said).toEqual([expect.stringMatching(/^warn: Azure gives a list .* no sense$/)]);
    expect(heard.withdrawn).toEqual([]);
    cloud.schedule();
    await until(() => expect(heard.withdrawn).toHaveLength(1));
  });

  test.each([410, 429, 500])('asks again after %i, and withdraws nothing', async (status) => {
    const cloud = await azure(event());
    const heard = listen(cloud);
    await until(() => expect(heard.told).toHaveLength(1));
    cloud.server.answer = () => ({ status });
    await askedAgain(cloud);
    expect(heard.withdrawn).toEqual([]);
    expect(heard.said).toEqual([]);
  });

  test('gives the first list its own time: it switches the service on', async () => {
    const cloud = await azure();
    const { answer } = cloud.server;
    cloud.server.answer = (asked) => (asked.url === EVENTS ? 'silent' : answer(asked));
    const env = { CAPTURE_AZURE_METADATA_ENDPOINT: cloud.server.url };
    listenTo({ kind: 'azure' }, { env, pace: { slowTimeoutMs: 30 } });
    await until(() => expect(cloud.server.count(EVENTS)).toBeGreaterThan(2));
  });

  test('gives a later list the time of any other answer', async () => {
    const cloud = await azure(event());
    const env = { CAPTURE_AZURE_METADATA_ENDPOINT: cloud.server.url };
    const pace = { timeoutMs: 20_000 };
    const heard = listenTo({ kind: 'azure' }, { env, pace });
    await until(() => expect(heard.told).toHaveLength(1));
    pace.timeoutMs = 100;
    await askedAgain(cloud);
    cloud.server.answer = () => 'silent';
    await askedAgain(cloud);
    expect(heard.withdrawn).toEqual([]);
  });

  test.each([
    ['refuses', { status: 400 }],
    ['breaks', 'broken'],
  ])('does not fail when Azure %s the approval', async (_, reply) => {
    const cloud = await azure(event());
    const heard = listen(cloud);
    await until(() => expect(heard.told).toHaveLength(1));
    const { answer } = cloud.server;
    cloud.server.answer = async (asked) => {
      if (asked.method !== 'POST') return answer(asked) as Reply;
      if (typeof reply === 'string') throw new Error(reply);
      return reply;
    };
    await heard.done();
    expect(cloud.approved()).toHaveLength(1);
  });

  test('is done at once after it was closed', async () => {
    const cloud = await azure(event());
    const heard = listen(cloud);
    await until(() => expect(heard.told).toHaveLength(1));
    heard.close();
    await heard.done();
    expect(cloud.approved()).toEqual([]);
  });
});

describe('where Azure cannot be heard', () => {
  test('nobody who names this machine ends the source after one line', async () => {
    const server = await serve(() => ({ status: 404 }));
    const env = { CAPTURE_AZURE_METADATA_ENDPOINT: server.url };
    const heard = listenTo({ kind: 'azure' }, { env });
    await until(() =>
      expect(heard.said).toEqual([expect.stringMatching(/^warn: no notices from Azure: .*\(http 404\)$/)]),
    );
    expect(server.asked.map(({ url }) => url)).toEqual([NAME]);
  });
});
