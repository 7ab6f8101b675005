// Runs of `capture verify` over what attempts have left, damaged in each way.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { leaveBehind, leaveOther, Pushing } from '../left-behind.ts';
import type { Incoming } from '../../s3-server/server.ts';
import { run } from '../ran.ts';
import { openStoreOfRecords, STORE_KINDS, type StoreOfRecords } from '../store-of-records.ts';

let stored: StoreOfRecords;
afterEach(() => stored.close());

describe.each(STORE_KINDS)('capture verify of %s', (kind) => {
  beforeEach(async () => {
    stored = await openStoreOfRecords(kind);
    for (const index of ['0', '1']) await leaveBehind(stored, index, { kind: 'failed', status: 3 });
    await leaveOther(stored, '0');
  });
  const verify = (...args: readonly string[]): ReturnType<typeof run> =>
    run('verify', stored, '--task-name', 't', ...args);

  it('exits 0 if all is whole, read or looked at', async () => {
    const whole = {
      status: 0,
      stderr: '',
      stdout: expect.stringMatching(/^2 indices, 16 objects, \d+ B: all whole\n$/) as string,
    };
    expect(await verify()).toEqual(whole);
    expect(await verify('--fast')).toEqual(whole);
    expect(await verify('--fast', '--array', '0-1')).toEqual(whole);
  });

  it('misses no checkpoint of a killed attempt that a later one has deleted', async () => {
    const [killed, next] = [new Pushing(stored, '5', 1), new Pushing(stored, '5', 2)];
    const old = [await killed.generation(2), await killed.generation(1)];
    killed.record(0, 'started');
    killed.record(3, 'checkpoint', { generations: old });
    next.record(0, 'started');
    next.record(3, 'done', { generations: [await next.generation(1)] });
    // Of one its deletion is still to come.
    await stored.store.delete(['k.chk.t.5.1-1']);
    expect(await verify('--array', '5')).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/^1 index, 2 objects, /),
    });
    const { stdout } = await run('ls', stored, '5', '--task-name', 't');
    expect(stdout.match(/^checkpoint \d-\d(?=: )/gm)).toEqual(['checkpoint 2-1', 'checkpoint 1-2']);
  });

  it('names each object that is gone, cut short or has other bytes, and what a restart takes', async () => {
    await stored.store.delete(['r.dat.0']);
    stored.put('out/t.log.0.zst', 'no frame');
    stored.put('k.chk.t.1.2-2', 'k.chk at 2-3');
    const ran = await verify();
    expect(ran.status).toBe(1);
    expect(ran.stdout.trimEnd().split('\n')).toEqual([
      'index 0: r.dat: its object is not in the store',
      expect.stringMatching(/^index 0: out\/t\.log: it cannot be decompressed/),
      'index 1: checkpoint 2-2: k.chk: k.chk.t.1.2-2 has not the md5 of its record',
      'index 1: a restart takes checkpoint 2-1',
      expect.stringMatching(/^2 indices, 16 objects, \d+ B: 3 damaged or missing$/),
    ]);
    expect(await verify('--array', '2-9')).toMatchObject({ status: 0 });
  });

  it('names what is not stored of an index whose objects are all whole', async () => {
    const next = new Pushing(stored, '5', 2);
    const left = [{ path: 'a.dat', why: 'only what attempt 1 left is stored' }];
    next.record(3, 'failed', { status: 74, results: [await next.result('r.dat', 'whole')], left });
    const ran = await verify('--array', '5');
    expect(ran.status).toBe(1);
    expect(ran.stdout.split('\n')).toEqual([
      'index 5: a.dat is not stored: only what attempt 1 left is stored',
      expect.stringMatching(/^1 index, 1 object, \d+ B: all whole; 1 file never stored$/),
      '',
    ]);
    expect(JSON.parse((await verify('--array', '5', '--json')).stdout)).toMatchObject({ left });
  });

  it('with --fast sees what is gone, cut short or replaced', async () => {
    await stored.store.delete(['r.dat.0']);
    stored.put('out/t.log.0.zst', 'no frame');
    await stored.store.put('k.chk.t.1.2-2', Buffer.from('k.chk at 2-3'), { meta: { push: 'another' } });
    for (const args of [[], ['--array', '0-1']]) {
      const ran = await verify('--fast', ...args);
      expect(ran.stdout).toContain('index 0: r.dat: its object is not in the store\n');
      expect(ran.stdout).toMatch(/index 0: out\/t\.log: its object has 8 bytes, not \d+\n/);
      // A directory tells no md5 in its listing.
      const isSeen = args.length > 0 || stored.server !== undefined;
      expect(ran.stdout.includes('k.chk.t.1.2-2 has not the md5')).toBe(isSeen);
    }
  });

  it('says so if no checkpoint is whole, or a record cannot be read', async () => {
    await stored.store.delete(['k.chk.t.0.2-2', 'k.chk.t.0.2-1', 'k.chk.t.0.1-1']);
    stored.put('.capture/t/1/0002-000003.failed-3.json', '{"damaged');
    const ran = await verify();
    expect(ran.status).toBe(1);
    expect(ran.stdout).toContain('index 0: none of 3 checkpoints is whole: a restart ends with 69');
    expect(ran.stderr).toMatch(/record \S*0002-000003\.failed-3\.json cannot be used/);
  });

  it('tells all of it as JSON', async () => {
    await stored.store.delete(['k.chk.t.1.2-2']);
    const ran = await verify('--json', '--array', '1');
    expect(JSON.parse(ran.stdout)).toMatchObject({
      index: '1',
      state: 'failed',
      objects: 8,
      damaged: [{ key: 'k.chk.t.1.2-2', generation: '2-2', path: 'k.chk' }],
      restart: '2-1',
    });
  });
});

/** When the run goes on: an object is about to be read; the store was listed, and the records are not read yet. */
const MOMENTS: readonly [readonly string[], (request: Incoming) => boolean][] = [
  [[], ({ key }) => key.endsWith('k.chk.t.0.1-1')],
  [['--fast'], ({ query }) => query.get('prefix') === 'run7/.capture/t/0/'],
];

it.each(MOMENTS)('capture verify %j misses nothing that a run replaces meanwhile', async (args, isDue) => {
  stored = await openStoreOfRecords('an S3 server');
  const { server } = stored;
  if (server === undefined) throw new Error('no server');
  const running = new Pushing(stored, '0', 1);
  const [first, second] = [await running.generation(1), await running.generation(2)];
  running.record(0, 'started');
  running.record(2, 'checkpoint', { generations: [second, first] });
  let replaced: Promise<unknown> | undefined;
  const replace = async (): Promise<void> => {
    running.record(4, 'checkpoint', { generations: [await running.generation(3), second] });
    await stored.store.delete(['k.chk.t.0.1-1']);
  };
  server.fault = (request) => {
    if (replaced !== undefined || !isDue(request)) return undefined;
    replaced = replace();
    return { kind: 'delay', until: replaced };
  };
  const ran = await run('verify', stored, ...args);
  expect(replaced).toBeDefined();
  expect(ran).toMatchObject({ status: 0, stdout: expect.stringContaining('2 objects') });
  expect(ran.stdout).toContain('all whole');
});
