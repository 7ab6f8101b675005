// Runs of `capture rm` over what attempts have left.
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { indexDetails } from '../../../src/array/details.ts';
import { unionOf } from '../../../src/model/checkpoint/history.ts';
import { generationKeys } from '../../../src/model/checkpoint/retention.ts';
import { BIN } from '../../e2e/support.ts';
import { leaveBehind, leaveOther, objectsOf, Pushing, recordsOf } from '../left-behind.ts';
import { killedAtChange, run, start } from '../ran.ts';
import { openStoreOfRecords, STORE_KINDS, type StoreOfRecords } from '../store-of-records.ts';

let stored: StoreOfRecords;
afterEach(() => stored.close());

const rm = (...args: readonly string[]): ReturnType<typeof run> =>
  run('rm', stored, '--task-name', 't', ...args);

const { signal } = new AbortController();

/** Keys that the next start of an index would believe in. */
async function believed(index: string): Promise<readonly string[]> {
  const { attempts } = await indexDetails({ store: stored.store, taskName: 't' }, index, signal);
  const { results, generations, partials } = unionOf(attempts, undefined);
  const files = [...results.values(), ...partials].map(({ key }) => key);
  return [...files, ...generations.flatMap(generationKeys)];
}

/** Of an index with its records: all but what somebody uploaded. */
async function ofIndex(index: string): Promise<readonly string[]> {
  const ending = new RegExp(`\\.${index}(\\.partial-.*|\\.~\\d+~)?(\\.zst)?$`);
  const isOf = (key: string): boolean => {
    const [, ofSet] = /\.t\.(\d+)\.\d+-\d+/.exec(key) ?? [];
    return ofSet === undefined ? ending.test(key) : ofSet === index;
  };
  const objects = (await objectsOf(stored)).filter(isOf);
  const records = (await recordsOf(stored)).filter((key) => key.startsWith(`.capture/t/${index}/`));
  return [...objects.filter((key) => !/^in\.dat|^u\.|\.u\./.test(key)), ...records];
}

describe.each(STORE_KINDS)('capture rm of %s', (kind) => {
  let others: readonly string[];
  beforeEach(async () => {
    stored = await openStoreOfRecords(kind);
    await leaveBehind(stored, '0', { kind: 'done' });
    await leaveBehind(stored, '1', { kind: 'failed', status: 3 });
    others = await leaveOther(stored, '0');
    stored.put('.capture/~output/t/0/0001.stdout.000000000000', 'what it said');
  });

  it('deletes all of an index, also what no record names, and nothing of anybody else', async () => {
    const before = await ofIndex('1');
    const ran = await rm('--index', '0', '--yes');
    expect(ran).toMatchObject({ status: 0, stderr: '' });
    expect(ran.stdout).toMatch(/^deleted 12 objects \(\d+ B\) of 1 index, and the records\n$/);
    expect(await ofIndex('0')).toEqual([]);
    expect(await objectsOf(stored)).toEqual(expect.arrayContaining([...others, 'in.dat.0']));
    expect(await ofIndex('1')).toEqual(before);
    const output: string[] = [];
    for await (const { key } of stored.store.list('.capture/~output/')) output.push(key);
    expect(output).toEqual([]);
    expect((await run('verify', stored, '--task-name', 't')).status).toBe(0);
    expect((await rm('--index', '0', '--yes')).status).toBe(66);
  });

  it('says with --dry-run what it would delete, and changes nothing', async () => {
    const before = [await objectsOf(stored), await recordsOf(stored)];
    const would = await rm('--array', '0-9', '--dry-run');
    expect([await objectsOf(stored), await recordsOf(stored)]).toEqual(before);
    const did = await rm('--array', '0-9', '--yes');
    expect(did.stdout).toBe(would.stdout.replace('would delete', 'deleted'));
  });

  it('leaves alone what runs, and what is stale unless --stale is given', async () => {
    new Pushing(stored, '0', 3).record(0, 'started');
    const longAgo = Date.now() - 9 * 3_600_000;
    const killed = new Pushing(stored, '2', 1);
    killed.record(0, 'started', {}, longAgo);
    killed.record(1, 'checkpoint', { generations: [await killed.generation(1)] }, longAgo);
    const before = [await ofIndex('0'), await ofIndex('2')];
    const ran = await rm('--array', '0,2', '--yes');
    expect(ran.status).toBe(1);
    expect(ran.stderr).toMatch(/index 0 is running, and left alone[^]*index 2 is stale, and left alone/);
    expect([await ofIndex('0'), await ofIndex('2')]).toEqual(before);
    expect(await rm('--index', '2', '--yes', '--stale')).toMatchObject({ status: 0 });
    expect(await ofIndex('2')).toEqual([]);
  });

  it('asks before, and deletes nothing without a yes', async () => {
    const nobody = await rm('--index', '0');
    expect(nobody.status).toBe(64);
    expect(nobody.stderr).toContain('cannot ask: stdin is not a terminal');
    const onTerminal = async (answer: string): Promise<string> => {
      const line = `${BIN} rm ${stored.url} --task-name t --index 0; echo status $?`;
      const child = spawn('script', ['-qec', line, '/dev/null'], { env: { ...process.env, ...stored.env } });
      child.stdin.write(answer);
      const said = await text(child.stdout);
      child.stdin.end();
      return said;
    };
    const before = await objectsOf(stored);
    expect(await onTerminal('n\n')).toMatch(/delete all that is stored of 1 index of t in [^]*status 1/);
    expect(await objectsOf(stored)).toEqual(before);
    expect(await onTerminal('y\n')).toContain('status 0');
    expect(await ofIndex('0')).toEqual([]);
  });

  it('wants to be told which indices', async () => {
    expect((await rm('--yes')).status).toBe(64);
    expect((await rm('--index', '0', '--array', '1', '--yes')).status).toBe(64);
  });
});

describe('capture rm of an S3 server', () => {
  beforeEach(async () => {
    stored = await openStoreOfRecords('an S3 server');
    await leaveBehind(stored, '0', { kind: 'done' });
  });

  it('leaves what a run stores that starts meanwhile, and lets it begin from nothing', async () => {
    if (stored.server === undefined) throw new Error('no server');
    const again = new Pushing(stored, '0', 4);
    let begun: Promise<unknown> | undefined;
    stored.server.fault = ({ operation }) => {
      if (operation !== 'DeleteObject' || begun !== undefined) return undefined;
      again.record(0, 'started');
      begun = again
        .result('new.dat', 'anew')
        .then((result) => again.record(1, 'stored', { results: [result] }));
      return undefined;
    };
    const ran = await rm('--index', '0', '--yes');
    await begun;
    expect(ran.status).toBe(1);
    expect(ran.stderr).toContain('index 0: something stays: it was started again meanwhile');
    expect(await believed('0')).toEqual(['new.dat.0']);
    expect((await run('verify', stored, '--task-name', 't')).status).toBe(0);
  });

  it('deletes nothing more of an index that is started again while it looks', async () => {
    if (stored.server === undefined) throw new Error('no server');
    const again = new Pushing(stored, '0', 4);
    stored.server.fault = ({ operation }) => {
      if (operation === 'HeadObject') again.record(0, 'started');
      return undefined;
    };
    const before = await objectsOf(stored);
    expect((await rm('--index', '0', '--yes')).status).toBe(1);
    expect(await objectsOf(stored)).toEqual(before);
  });

  it('leaves, killed at any request, nothing that a start believes in, and is finished by the next', async () => {
    const { server } = stored;
    if (server === undefined) throw new Error('no server');
    for (let at = 1; ; at += 1) {
      const index = String(at);
      await leaveBehind(stored, index, { kind: 'done' });
      const isKilled = await killedAtChange(at, server, () =>
        start('rm', stored, ['--task-name', 't', '--index', index, '--yes']),
      );
      const there = new Set(await objectsOf(stored));
      const gone = (await believed(index)).filter((key) => !there.has(key));
      expect(gone, `killed at change ${at}`).toEqual([]);
      const again = await rm('--index', index, '--yes');
      expect([0, 66], again.stderr).toContain(again.status);
      expect(await ofIndex(index), `killed at change ${at}`).toEqual([]);
      if (!isKilled) break;
      expect(at).toBeLessThan(60);
    }
  });
});
