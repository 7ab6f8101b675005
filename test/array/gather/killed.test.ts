// `capture gather` that is killed and begun again, or is not alone in its directory.
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { run, start } from '../ran.ts';
import { openStoreOfRecords, type StoreOfRecords } from '../store-of-records.ts';
import { filesBelow, fill, keyOf, MTIME_NS, NAMES, textOf } from './results.ts';

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
  /** With three results each: more than get their names together. */
  const INDICES = 200;

  /** Keys of the results that have been downloaded, in order. */
  const downloads = (): readonly string[] =>
    (stored.server?.served ?? [])
      .filter(({ operation, key }) => operation === 'GetObject' && !key.includes('.capture/'))
      .map(({ key }) => key.replace('run7/', ''));

  /** The last step of a download gives the file its time. */
  const isFinished = (name: string): boolean =>
    fs.statSync(path.join(dir, name), { bigint: true }).mtimeNs === BigInt(MTIME_NS);

  /** Keys of the results that are there, whole and finished, also of those that wait for their names. */
  const wholeHere = (indices: number): ReadonlySet<string> => {
    const keyOfContent = new Map<string, string>();
    for (let index = 0; index < indices; index += 1)
      for (const name of NAMES)
        keyOfContent.set(textOf(String(index), name).toString(), keyOf(`${index}/${name}`));
    const contents = filesBelow(dir)
      .filter(isFinished)
      .map((name) => fs.readFileSync(path.join(dir, name), 'utf8'));
    return new Set(contents.flatMap((content) => keyOfContent.get(content) ?? []));
  };

  it(
    'downloads nothing twice that was finished, and is bitwise complete in the end',
    { timeout: 120_000 },
    async () => {
      stored = await openStoreOfRecords('an S3 server');
      fill(stored, INDICES);
      let died = 0;
      for (let life = 0; life < 20; life += 1) {
        const whole = wholeHere(INDICES);
        const before = downloads().length;
        const child = start('gather', stored, [dir, '--parallel', '4']);
        child.stdout?.resume();
        child.stderr?.resume();
        // In the middle of its work: after so many answers.
        const enough = (): boolean =>
          downloads().length >= before + 24 + (life % 9) || child.exitCode !== null;
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
      const whole = wholeHere(INDICES);
      // Some have their names, and some wait for them.
      expect(filesBelow(dir).filter((name) => !name.startsWith('.capture/')).length).toBeGreaterThan(200);
      expect(filesBelow(dir).filter((name) => name.startsWith('.capture/')).length).toBeGreaterThan(10);
      const before = downloads().length;
      expect(await run('gather', stored, dir)).toMatchObject({ status: 0 });
      expect(
        downloads()
          .slice(before)
          .filter((key) => whole.has(key)),
      ).toEqual([]);
      expect(filesBelow(dir)).toHaveLength(INDICES * NAMES.length);
      for (const name of filesBelow(dir)) {
        const [, index = '', rest = ''] = /^(\d+)\/(.*)$/.exec(name) ?? [];
        expect(fs.readFileSync(path.join(dir, name)), name).toEqual(textOf(index, rest));
      }
    },
  );

  /** Begins to gather one index, and ends it with the signal when all but `last` wait for their names. */
  const endedBefore = async (last: string, signal: NodeJS.Signals): Promise<void> => {
    stored = await openStoreOfRecords('an S3 server');
    fill(stored, 1);
    if (stored.server === undefined) throw new Error('no server');
    stored.server.fault = ({ operation, key }) =>
      operation === 'GetObject' && key.endsWith(last) ? { kind: 'stall' } : undefined;
    const child = start('gather', stored, [dir]);
    child.stderr?.resume();
    await vi.waitFor(() => expect(wholeHere(1).size).toBe(NAMES.length - 1), 30_000);
    expect(filesBelow(dir).filter((name) => !name.startsWith('.capture/'))).toEqual([]);
    child.kill(signal);
    await once(child, 'close');
    stored.server.fault = () => undefined;
  };

  it('believes what waits for its name after a death only by its md5: a power cut may have emptied it', async () => {
    await endedBefore('r.dat.0', 'SIGKILL');
    const emptied = filesBelow(dir).find((name) =>
      fs.readFileSync(path.join(dir, name), 'utf8').startsWith('out/a b'),
    );
    const { size } = fs.statSync(path.join(dir, emptied ?? ''));
    fs.writeFileSync(path.join(dir, emptied ?? ''), Buffer.alloc(size));
    const before = downloads().length;
    expect(await run('gather', stored, dir, '--dry-run')).toMatchObject({ status: 0 });
    expect(await run('gather', stored, dir)).toMatchObject({ status: 0 });
    expect(downloads().slice(before).toSorted()).toEqual(['out/a b.0', 'r.dat.0']);
    expect(filesBelow(dir)).toEqual(NAMES.map((name) => `0/${name}`).toSorted());
    for (const name of NAMES) expect(fs.readFileSync(path.join(dir, '0', name))).toEqual(textOf('0', name));
    const { mode, mtimeNs } = fs.statSync(path.join(dir, '0/out/log.txt'), { bigint: true });
    expect({ mode: mode & 0o777n, mtimeNs }).toEqual({ mode: 0o640n, mtimeNs: BigInt(MTIME_NS) });
    expect(fs.readdirSync(dir)).toEqual(['0']);
  });

  it('stopped by a signal gives what is whole its name, and leaves nothing else', async () => {
    await endedBefore('r.dat.0', 'SIGTERM');
    expect(filesBelow(dir)).toEqual(['0/out/a b', '0/out/log.txt']);
    expect(fs.readdirSync(dir)).toEqual(['0']);
  });

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
