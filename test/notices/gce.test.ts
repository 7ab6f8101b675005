// GCE's metadata server as a local server speaks it: it answers a question with wait_for_change only when the
// value is another than the one with that ETag.
import { afterEach, describe, expect, test } from 'vitest';
import { closeAll, listenTo, serve, until, type Listening } from './listening.ts';
import type { Asked, MetadataServer, Reply } from './metadata-server.ts';

const ROOT = '/computeMetadata/v1/instance/';
const PREEMPTED = `${ROOT}preempted`;
const MAINTENANCE = `${ROOT}maintenance-event`;

afterEach(closeAll);

interface Gce {
  readonly server: MetadataServer;
  set(key: 'preempted' | 'maintenance-event', value: string): void;
  /** Answers every question that waits, as the server does after `timeout_sec`. */
  release(): void;
  /** How many questions wait for a change of this key. */
  waiting(key: string): number;
}

async function gce(values: Record<string, string> = {}): Promise<Gce> {
  const value: Record<string, string> = { preempted: 'FALSE', 'maintenance-event': 'NONE', ...values };
  let waiting: { key: string; isChanged: () => boolean; go: () => void }[] = [];
  const etagOf = (key: string): string => Buffer.from(`${key}=${value[key]}`).toString('hex').slice(-16);
  const answer = async ({ method, url, headers }: Asked): Promise<Reply> => {
    const { pathname, searchParams } = new URL(url, 'http://metadata.google.internal');
    const key = pathname.slice(ROOT.length);
    if (headers['metadata-flavor'] !== 'Google') return { status: 403, body: 'Missing Metadata-Flavor' };
    if (method !== 'GET' || !pathname.startsWith(ROOT) || value[key] === undefined) return { status: 404 };
    const isChanged = (): boolean => searchParams.get('last_etag') !== etagOf(key);
    if (searchParams.get('wait_for_change') === 'true' && !isChanged()) {
      await new Promise<void>((go) => {
        waiting.push({ key, isChanged, go });
      });
    }
    const also = { etag: etagOf(key), 'metadata-flavor': 'Google', 'content-type': 'application/text' };
    return { headers: also, body: value[key] };
  };
  const letGo = (which: (one: (typeof waiting)[number]) => boolean): void => {
    const going = waiting.filter(which);
    waiting = waiting.filter((one) => !going.includes(one));
    for (const { go } of going) go();
  };
  return {
    server: await serve(answer),
    set: (key, text) => {
      value[key] = text;
      letGo(({ isChanged }) => isChanged());
    },
    release: () => letGo(() => true),
    waiting: (key) => waiting.filter((one) => one.key === key).length,
  };
}

function listen({ server }: Gce): Listening {
  return listenTo({ kind: 'gce' }, { env: { GCE_METADATA_HOST: server.host } });
}

async function isWaiting(cloud: Gce): Promise<void> {
  await until(() => {
    expect(cloud.waiting('preempted')).toBe(1);
    expect(cloud.waiting('maintenance-event')).toBe(1);
  });
}

describe('the GCE source', () => {
  test('waits for the change, and asks nothing in between', async () => {
    const cloud = await gce();
    const heard = listen(cloud);
    await isWaiting(cloud);
    const asked = cloud.server.asked.length;
    cloud.set('preempted', 'TRUE');
    await until(() => expect(heard.told).toHaveLength(1));
    expect(heard.told).toEqual([
      { source: 'gce', kind: 'stop', atMs: undefined, what: 'GCE preempts this machine' },
    ]);
    await isWaiting(cloud);
    // One question for the other key's whole time, one that follows the answer.
    expect(cloud.server.asked).toHaveLength(asked + 1);
    expect(cloud.server.asked.at(-1)?.url).toMatch(
      /^\/computeMetadata\/v1\/instance\/preempted\?wait_for_change=true&last_etag=[0-9a-f]{16}&timeout_sec=300$/,
    );
    expect(heard.said).toEqual([]);
  });

  test('hears of a preemption that came before it began to listen', async () => {
    const cloud = await gce({ preempted: 'TRUE' });
    const heard = listen(cloud);
    await until(() => expect(heard.told).toMatchObject([{ source: 'gce', kind: 'stop' }]));
  });

  test('tells it once when the server answers again without a change', async () => {
    const cloud = await gce({ preempted: 'TRUE' });
    const heard = listen(cloud);
    for (let times = 0; times < 3; times += 1) {
      await isWaiting(cloud);
      cloud.release();
    }
    await isWaiting(cloud);
    expect(heard.told).toHaveLength(1);
    expect(heard.withdrawn).toEqual([]);
  });

  test('takes the end for maintenance for a notice, and its end for a withdrawal', async () => {
    const cloud = await gce();
    const heard = listen(cloud);
    await isWaiting(cloud);
    cloud.set('maintenance-event', 'TERMINATE_ON_HOST_MAINTENANCE');
    await until(() => expect(heard.told).toHaveLength(1));
    expect(heard.told[0]?.what).toContain('maintenance');
    cloud.set('maintenance-event', 'NONE');
    await until(() => expect(heard.withdrawn).toEqual(heard.told));
  });

  test('withdraws nothing while one of two reasons stands', async () => {
    const cloud = await gce({ preempted: 'TRUE', 'maintenance-event': 'TERMINATE_ON_HOST_MAINTENANCE' });
    const heard = listen(cloud);
    await isWaiting(cloud);
    cloud.set('maintenance-event', 'NONE');
    await isWaiting(cloud);
    expect(heard.told).toHaveLength(1);
    expect(heard.withdrawn).toEqual([]);
  });

  test('lets a live migration pass', async () => {
    const cloud = await gce({ 'maintenance-event': 'MIGRATE_ON_HOST_MAINTENANCE' });
    const heard = listen(cloud);
    await isWaiting(cloud);
    expect(heard.told).toEqual([]);
    expect(heard.said).toEqual([]);
  });

  test('warns once of a value that makes no sense, and lets stand what stood', async () => {
    const cloud = await gce({ preempted: 'TRUE' });
    const heard = listen(cloud);
    await isWaiting(cloud);
    cloud.set('preempted', 'PERHAPS');
    await until(() => expect(heard.said).toEqual([expect.stringMatching(/^warn: GCE .*\(preempted\)$/)]));
    await isWaiting(cloud);
    cloud.set('preempted', 'MAYBE');
    await isWaiting(cloud);
    expect(heard.said).toHaveLength(1);
    expect(heard.withdrawn).toEqual([]);
  });

  test('asks again after a short outage (503)', async () => {
    const cloud = await gce();
    const heard = listen(cloud);
    await isWaiting(cloud);
    const { answer } = cloud.server;
    cloud.server.answer = () => ({ status: 503, headers: { 'metadata-flavor': 'Google' } });
    cloud.release();
    const asked = cloud.server.asked.length;
    await until(() => expect(cloud.server.asked.length).toBeGreaterThan(asked + 2));
    cloud.server.answer = answer;
    cloud.set('preempted', 'TRUE');
    await until(() => expect(heard.told).toHaveLength(1));
  });
});

describe('where GCE cannot be heard', () => {
  test.each([
    ['a server that does not say it is Google', { body: 'TRUE' }],
    ['another flavour', { headers: { 'metadata-flavor': 'Oracle' }, body: 'TRUE' }],
  ])('%s is not believed', async (_, reply) => {
    const server = await serve(() => reply);
    const heard = listenTo({ kind: 'gce' }, { env: { GCE_METADATA_HOST: server.host } });
    await until(() => expect(heard.said).toEqual([expect.stringContaining('no notices from GCE')]));
    expect(heard.told).toEqual([]);
    expect(server.asked).toHaveLength(1);
  });

  test('an answer without the flavour is passed over later as well', async () => {
    const cloud = await gce();
    const heard = listen(cloud);
    await isWaiting(cloud);
    cloud.server.answer = () => ({ body: 'TRUE' });
    cloud.release();
    const asked = cloud.server.asked.length;
    await until(() => expect(cloud.server.asked.length).toBeGreaterThan(asked + 2));
    expect(heard.told).toEqual([]);
  });

  test('silence ends the source after three tries', async () => {
    const server = await serve(() => 'silent');
    const env = { GCE_METADATA_HOST: server.host };
    const heard = listenTo({ kind: 'gce' }, { env, pace: { timeoutMs: 30 } });
    await until(() => expect(heard.said).toEqual([expect.stringContaining('(no answer within 30 ms)')]));
    await until(() => expect(server.asked.map(({ url }) => url)).toEqual([PREEMPTED, PREEMPTED, PREEMPTED]));
    expect(server.count(MAINTENANCE)).toBe(0);
  });
});
