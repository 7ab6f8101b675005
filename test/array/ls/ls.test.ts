// Runs of `capture ls` over what attempts have left.
import { afterEach, describe, expect, it } from 'vitest';
import { leaveBehind, leaveOther } from '../left-behind.ts';
import { run } from '../ran.ts';
import { openStoreOfRecords, STORE_KINDS, type StoreOfRecords } from '../store-of-records.ts';

let stored: StoreOfRecords;
afterEach(() => stored.close());

describe.each(STORE_KINDS)('capture ls of %s', (kind) => {
  it('lists all that the records of an index name, each object once, and nothing that stands beside it', async () => {
    stored = await openStoreOfRecords(kind);
    await leaveBehind(stored, '3', { kind: 'failed', status: 3 });
    await leaveOther(stored, '3');
    const ran = await run('ls', stored, '3', '--task-name', 't');
    expect(ran).toMatchObject({ status: 0, stderr: '' });
    const lines = ran.stdout.split('\n').map((line) => line.replaceAll(/ +/g, ' ').trim());
    expect(lines.slice(0, 4)).toEqual([
      'index 3 of t: failed 3',
      'checkpoint 2-2: safe (1 file, 1 companion, 35 B), 2026-11-22T11:30:00.000Z',
      'checkpoint 2-1: safe (1 file, 12 B), 2026-11-22T11:30:00.000Z',
      'checkpoint 1-1: safe (1 file, 12 B), 2026-11-22T11:30:00.000Z',
    ]);
    const objects = lines.slice(5, -1).map((line) => [line.split(' ')[0], line.split(' ').at(-1)].join(' '));
    expect(objects.filter((line) => line.startsWith('record'))).toHaveLength(7);
    expect(objects.filter((line) => !line.startsWith('record'))).toEqual([
      'result out/t.log.3.zst',
      'result r.dat.3',
      'staged x.dat.3.partial-2',
      'older r.dat.3.~1~',
      'checkpoint k.chk.t.3.2-2',
      'checkpoint md.log.t.3.2-2.1.zst',
      'checkpoint md.log.t.3.2-2.2.zst',
      'checkpoint k.chk.t.3.2-1',
      'checkpoint k.chk.t.3.1-1',
    ]);
  });

  it('tells all indices, or those of --array, as JSON, one a line', async () => {
    stored = await openStoreOfRecords(kind);
    for (const index of ['0', '1', '2']) await leaveBehind(stored, index, { kind: 'done' });
    const ran = await run('ls', stored, '--json', '--array', '1-2');
    const read = ran.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { index: string; checkpoints: object[] });
    expect(read.map(({ index }) => index)).toEqual(['1', '2']);
    expect(read[0]).toMatchObject({
      format: 1,
      task: 't',
      state: 'done',
      checkpoints: [{ name: '2-2' }, { name: '2-1' }, { name: '1-1' }],
      older: [{ path: 'r.dat', key: 'r.dat.1.~1~', storedSize: 7 }],
      partials: [{ key: 'x.dat.1.partial-2' }],
    });
  });

  it('exits 66 if nothing is stored of the index, and tells of a record that cannot be read', async () => {
    stored = await openStoreOfRecords(kind);
    await leaveBehind(stored, '0', { kind: 'done' });
    expect(await run('ls', stored, '7')).toMatchObject({ status: 66 });
    stored.put('.capture/t/0/0002-000003.done.json', '{"damaged');
    const ran = await run('ls', stored, '0');
    expect(ran.stderr).toMatch(/record \S*0002-000003\.done\.json cannot be used/);
    expect(ran.stdout).toContain('r.dat.0');
  });
});
