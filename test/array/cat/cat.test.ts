// Runs of `capture cat` over what attempts have left.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decodePath } from '../../../src/model/path.ts';
import { BIN } from '../../e2e/support.ts';
import { frameOf, leaveBehind, Pushing } from '../left-behind.ts';
import { run } from '../ran.ts';
import { openStoreOfRecords, STORE_KINDS, type StoreOfRecords } from '../store-of-records.ts';

let stored: StoreOfRecords;
afterEach(() => stored.close());

describe.each(STORE_KINDS)('capture cat from %s', (kind) => {
  beforeEach(async () => {
    stored = await openStoreOfRecords(kind);
  });

  it('writes a result, a checkpoint file and a companion, decompressed, and nothing else', async () => {
    await leaveBehind(stored, '3', { kind: 'done' });
    const whole = { status: 0, stderr: '' };
    expect(await run('cat', stored, '3', 'r.dat')).toEqual({ ...whole, stdout: 'whole\n' });
    expect(await run('cat', stored, '3', './out/t.log')).toEqual({ ...whole, stdout: 'text\n' });
    const member = await run('cat', stored, '3', 'k.chk', '--generation', '1-1');
    expect(member).toEqual({ ...whole, stdout: 'k.chk at 1-1' });
    const companion = await run('cat', stored, '3', 'md.log', '--generation', '2-2');
    expect(companion).toEqual({ ...whole, stdout: 'first part\nsecond part\n' });
  });

  it('knows no checkpoint that a later attempt has deleted', async () => {
    const [killed, next] = [new Pushing(stored, '3', 1), new Pushing(stored, '3', 2)];
    killed.record(3, 'checkpoint', { generations: [await killed.generation(1)] });
    next.record(3, 'done', { generations: [await next.generation(1)] });
    await stored.store.delete(['k.chk.t.3.1-1']);
    const ran = await run('cat', stored, '3', 'k.chk', '--generation', '1-1');
    expect(ran).toMatchObject({ status: 1, stdout: '' });
    expect(ran.stderr).toContain('index 3 has no checkpoint 1-1 (it has: 2-1)');
  });

  it('finds a name that is no UTF-8', async () => {
    const pushing = new Pushing(stored, '0', 1);
    pushing.record(2, 'done', {
      results: [await pushing.result(decodePath(Buffer.from([0x62, 0xff])), 'x')],
    });
    const { env, url } = stored;
    const asked = [BIN, 'cat', url, '0'].map((word) => `'${word}'`).join(' ');
    // Node gives its children only words of UTF-8.
    const child = spawn('sh', ['-c', `${asked} "$(printf 'b\\377')"`], {
      env: { PATH: process.env['PATH'], ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [written] = await Promise.all([text(child.stdout), once(child, 'close')]);
    expect(written).toBe('x');
  });

  it.each([
    ['other bytes', 'wh0le\n', 'has not the md5 of its record'],
    ['fewer bytes', 'whol', 'has 4 bytes, its record says 6'],
    ['more bytes', 'whole\n!', 'is longer than the 6 bytes of its record'],
  ])('writes nothing of a result that is damaged (%s), and exits 1', async (_, damaged, why) => {
    await leaveBehind(stored, '3', { kind: 'done' });
    stored.put('r.dat.3', damaged);
    const ran = await run('cat', stored, '3', 'r.dat');
    expect(ran).toMatchObject({ status: 1, stdout: '' });
    expect(ran.stderr).toContain(`r.dat of index 3 is damaged: r.dat.3 ${why}`);
  });

  it('writes nothing of a result that cannot be decompressed, or is gone', async () => {
    await leaveBehind(stored, '3', { kind: 'done' });
    stored.put('out/t.log.3.zst', 'no frame');
    const ran = await run('cat', stored, '3', 'out/t.log');
    expect(ran).toMatchObject({ status: 1, stdout: '' });
    expect(ran.stderr).toContain('it cannot be decompressed');
    await stored.store.delete(['r.dat.3']);
    const gone = await run('cat', stored, '3', 'r.dat');
    expect(gone).toMatchObject({ status: 1, stdout: '' });
    expect(gone.stderr).toContain('r.dat.3 is not in the store');
  });

  it('holds back the end of a large file that is damaged, and says how much it has written', async () => {
    const pushing = new Pushing(stored, '0', 1);
    const large = 'x'.repeat(12 * 2 ** 20);
    const result = await pushing.result('large.dat', large, true);
    pushing.record(2, 'done', { results: [result] });
    expect((await run('cat', stored, '0', 'large.dat')).stdout).toBe(large);
    stored.put(result.key, frameOf(Buffer.from(`${large.slice(1)}y`)));
    const ran = await run('cat', stored, '0', 'large.dat');
    expect(ran.status).toBe(1);
    expect(ran.stdout.length).toBeLessThanOrEqual(4 * 2 ** 20);
    expect(ran.stderr).toMatch(/has not the md5 of its record; \d\S* MiB of it are written already/);
  });

  it('says what there is if there is no such file', async () => {
    await leaveBehind(stored, '3', { kind: 'done' });
    const ran = await run('cat', stored, '3', 'none.dat');
    expect(ran).toMatchObject({ status: 1, stdout: '' });
    expect(ran.stderr).toContain('index 3 has no result none.dat');
    expect(ran.stderr).toContain(`try: capture ls ${stored.url} 3 shows what there is`);
    const member = await run('cat', stored, '3', 'k.chk');
    expect(member.stderr).toContain('try: --generation 2-2: it is a file of that checkpoint');
    const set = await run('cat', stored, '3', 'k.chk', '--generation', '9-1');
    expect(set.stderr).toContain('index 3 has no checkpoint 9-1 (it has: 2-2, 2-1, 1-1)');
    expect(await run('cat', stored, '4', 'r.dat')).toMatchObject({ status: 66 });
    expect(await run('cat', stored, '4')).toMatchObject({ status: 64 });
  });
});
