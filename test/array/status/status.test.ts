// Runs of bin/capture over stores that attempts have left.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import { BIN } from '../../e2e/support.ts';
import { openStoreOfRecords, STORE_KINDS, type StoreOfRecords } from '../store-of-records.ts';

let stored: StoreOfRecords | undefined;
afterEach(async () => {
  await stored?.close();
  stored = undefined;
});

interface Ran {
  readonly stdout: string;
  readonly stderr: string;
  readonly status: number | null;
}

async function status({ url, env }: StoreOfRecords, ...args: readonly string[]): Promise<Ran> {
  const child = spawn(BIN, ['status', url, ...args], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    child.exitCode ?? once(child, 'close'),
  ]);
  return { stdout, stderr, status: child.exitCode };
}

const file = (path: string, size: number): object => ({
  path,
  key: `${path}.1`,
  push: 'p',
  attempt: 1,
  md5: 'd41d8cd98f00b204e9800998ecf8427e',
  size,
  compressed: false,
  mtimeNs: '0',
  mode: 0o644,
});

/** What a real array leaves: done, failed, preempted, running, killed, only claimed, with a damaged record. */
function fill(store: StoreOfRecords): void {
  const longAgo = Date.now() - 5 * 3_600_000;
  const claim = { attempt: 1, seq: 0, kind: 'started' } as const;
  for (const index of ['0', '1', '2', '3']) store.record({ index, ...claim }, longAgo);
  store.record({ index: '0', attempt: 1, seq: 2, kind: 'done', results: [file('r.dat', 1536)] } as never);
  store.record({ index: '1', attempt: 1, seq: 2, kind: 'failed', status: 137, host: 'node18' });
  store.record({ index: '1', attempt: 1, seq: 1, kind: 'checkpoint' }, longAgo);
  store.record({ index: '2', attempt: 1, seq: 1, kind: 'preempted' });
  store.record({ index: '3', attempt: 1, seq: 1, kind: 'checkpoint' }, longAgo);
  store.record({ index: '10', ...claim });
  store.put('.capture/t/11/0001-000000.started.json', '{"damaged"', longAgo);
  store.put('.capture/t/11/0001-000001.stored.json', '', longAgo);
}

describe.each(STORE_KINDS)('capture status of %s', (kind) => {
  it('tells what needs attention first, then how many there are of each, and exits 1', async () => {
    stored = await openStoreOfRecords(kind);
    fill(stored);
    const ran = await status(stored, '--array', '0-12');
    const lines = ran.stdout.split('\n').map((line) => line.replaceAll(/ +/g, ' ').trim());
    expect(lines).toEqual([
      'INDEX STATE ATTEMPTS LAST SIGN CHECKPOINT RESULTS SIZE HOST',
      '4-9,12 missing',
      expect.stringMatching(/^1 failed 137 1 \d+ s 5 h 0 node18$/),
      expect.stringMatching(/^3 stale 1 5 h 5 h 0 node17$/),
      '11 stale 1 5 h 0',
      expect.stringMatching(/^2 preempted 1 \d+ s 0 node17$/),
      expect.stringMatching(/^10 running 1 \d+ s 0$/),
      expect.stringMatching(/^0 done 1 \d+ s 1 1.5 KiB node17$/),
      '13 indices: 1 failed, 2 stale, 7 missing, 1 preempted, 1 running, 1 done',
      '',
    ]);
    expect(ran.stderr).toMatch(/record \S*0001-000001\.stored\.json cannot be used/);
    expect(ran.status).toBe(1);
  });

  it('tells the same as JSON, from the listing alone', async () => {
    stored = await openStoreOfRecords(kind);
    fill(stored);
    const ran = await status(stored, '--json', '--array', '0-3,11,12');
    const read = JSON.parse(ran.stdout) as { counts: object; indices: { index: string; state: string }[] };
    expect(read).toMatchObject({
      format: 1,
      task: 't',
      counts: { failed: 1, stale: 2, missing: 1, preempted: 1, ended: 0, running: 0, done: 1 },
    });
    expect(read.indices.map(({ index, state }) => `${index} ${state}`)).toEqual([
      '0 done',
      '1 failed',
      '2 preempted',
      '3 stale',
      '11 stale',
      '12 missing',
    ]);
    expect(read.indices[1]).toMatchObject({ status: 137, attempts: 1, attempt: 1 });
    expect(ran.stderr).toContain('not of --array, and not counted: 10');
    expect(stored.server?.served.map(({ operation }) => operation) ?? []).not.toContain('GetObject');
  });

  it('exits 0 if all are done', async () => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '0', attempt: 1, seq: 2, kind: 'done' });
    expect(await status(stored)).toMatchObject({ status: 0, stderr: '' });
    expect(await status(stored, '--array', '0-1')).toMatchObject({ status: 1 });
  });

  it('asks which task is meant, if several share the prefix', async () => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '0', attempt: 1, seq: 2, kind: 'done' });
    stored.record({ index: '0', attempt: 1, seq: 2, kind: 'failed', status: 1, task: 'u' });
    const ran = await status(stored);
    expect(ran.status).toBe(64);
    expect(ran.stderr).toMatch(/2 tasks share \S+: t, u\n +try: say which with --task-name t/);
    expect(await status(stored, '--task-name', 't')).toMatchObject({ status: 0 });
    expect(await status(stored, '--task-name', 'u')).toMatchObject({ status: 1 });
    expect(await status(stored, '--task-name', 'v')).toMatchObject({ status: 66 });
  });
});
