// Runs of `capture verify` over what attempts have left, damaged in each way.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { leaveBehind, leaveOther } from '../left-behind.ts';
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
