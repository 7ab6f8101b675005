// `capture gather` that is killed and begun again, or is not alone in its directory.
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { run, start } from '../ran.ts';
import { openStoreOfRecords, type StoreOfRecords } from '../store-of-records.ts';
import { filesBelow, fill, keyOf, textOf } from './results.ts';

let stored: StoreOfRecords;
let dir: string;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-gather-'));
});
afterEach(async () => {
  await stored.close();
  fs.rmSync(dir, { recursive: true, force: true });
});

describe('a gathering that is killed, or not alone', () => {
  const INDICES = 60;

  it(
    'downloads nothing twice that was whole, and is bitwise complete in the end',
    { timeout: 120_000 },
    async () => {
      stored = await openStoreOfRecords('an S3 server');
      fill(stored, INDICES);
      const downloads = (): readonly string[] =>
        (stored.server?.served ?? [])
          .filter(({ operation, key }) => operation === 'GetObject' && !key.includes('.capture/'))
          .map(({ key }) => key.replace('run7/', ''));
      let died = 0;
      for (let life = 0; life < 20; life += 1) {
        const whole = new Set(
          filesBelow(dir)
            .filter((name) => !name.startsWith('.capture/'))
            .map(keyOf),
        );
        const before = downloads().length;
        const child = start('gather', stored, [dir, '--parallel', '4']);
        child.stdout?.resume();
        child.stderr?.resume();
        // In the middle of its work: after so many answers.
        const enough = (): boolean =>
          downloads().length >= before + 4 + (life % 5) || child.exitCode !== null;
        while (!enough()) await new Promise(setImmediate);
        child.kill('SIGKILL');
        await once(child, 'close');
        if (child.signalCode === 'SIGKILL') died += 1;
        const again = downloads()
          .slice(before)
          .filter((key) => whole.has(key));
        expect(again, `life ${life}`).toEqual([]);
      }
      expect(died).toBeGreaterThan(15);
      const whole = new Set(
        filesBelow(dir)
          .filter((name) => !name.startsWith('.capture/'))
          .map(keyOf),
      );
      const before = downloads().length;
      expect(await run('gather', stored, dir)).toMatchObject({ status: 0 });
      expect(
        downloads()
          .slice(before)
          .filter((key) => whole.has(key)),
      ).toEqual([]);
      expect(filesBelow(dir)).toHaveLength(INDICES * 3);
      for (const name of filesBelow(dir)) {
        const [, index = '', rest = ''] = /^(\d+)\/(.*)$/.exec(name) ?? [];
        expect(fs.readFileSync(path.join(dir, name)), name).toEqual(textOf(index, rest));
      }
    },
  );

  it('is alone in its directory', async () => {
    stored = await openStoreOfRecords('an S3 server');
    fill(stored, 1);
    const { server } = stored;
    if (server === undefined) throw new Error('no server');
    server.fault = ({ operation, key }) =>
      operation === 'GetObject' && key.endsWith('r.dat.0') ? { kind: 'stall' } : undefined;
    const first = start('gather', stored, [dir]);
    const stalled = (): boolean => server.served.some(({ key }) => key.endsWith('r.dat.0'));
    while (!stalled()) await new Promise(setImmediate);
    const second = await run('gather', stored, dir);
    first.kill('SIGKILL');
    await once(first, 'close');
    expect(second.status).toBe(64);
    expect(second.stderr).toContain(`another capture gather is at work in ${dir}`);
  });

  it('leaves a file that somebody puts there meanwhile', async () => {
    stored = await openStoreOfRecords('an S3 server');
    fill(stored, 1);
    const mine = path.join(dir, '0/r.dat');
    const { server } = stored;
    if (server === undefined) throw new Error('no server');
    server.fault = ({ operation, key }) => {
      if (operation === 'GetObject' && key.endsWith('r.dat.0')) {
        fs.mkdirSync(path.dirname(mine), { recursive: true });
        fs.writeFileSync(mine, 'mine');
      }
      return undefined;
    };
    const ran = await run('gather', stored, dir);
    expect(ran.status).toBe(1);
    expect(ran.stderr).toContain('0/r.dat of index 0: a different file of that name is there, and stays');
    expect(fs.readFileSync(mine, 'utf8')).toBe('mine');
  });
});
