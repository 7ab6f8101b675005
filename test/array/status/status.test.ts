// Runs of bin/capture over stores that attempts have left.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import { BIN } from '../../e2e/support.ts';
import { resultKey } from '../../../src/model/format/keys.ts';
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

const file = (path: string, size: number, index: string): object => ({
  path,
  key: resultKey(path, { taskName: 't', index }, false),
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
  store.record({
    index: '0',
    attempt: 1,
    seq: 2,
    kind: 'done',
    results: [file('r.dat', 1536, '0')],
  } as never);
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
      'INDEX STATE ATTEMPTS LAST SIGN CHECKPOINT RESULTS SIZE PEAK MEM HOST',
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
    // With Slurm on this machine, it would also read which jobs run.
    const env = { ...stored.env, CAPTURE_NODE: process.execPath, PATH: '/no-programs' };
    const ran = await status({ ...stored, env }, '--json', '--array', '0-3,11,12');
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
    const none = await status(stored, '--task-name', 'v');
    expect(none.status).toBe(66);
    expect(none.stderr).toMatch(/nothing is stored of task v under .*\n.*leave --task-name out to see/);
    expect(await status(stored, '--task-name', 't')).toMatchObject({ status: 0 });
    expect(await status(stored, '--task-name', 'u')).toMatchObject({ status: 1 });
    expect(await status(stored, '--task-name', 'v')).toMatchObject({ status: 66 });
  });
});

describe('more indices than a person reads', () => {
  const gets = ({ server }: StoreOfRecords): number =>
    server?.served.filter(({ operation }) => operation === 'GetObject').length ?? 0;
  const fillMany = (store: StoreOfRecords): void => {
    for (let at = 0; at < 101; at += 1) {
      const results = [file('r.dat', at, String(at))] as never;
      store.record({ index: String(at), attempt: 1, seq: 2, kind: 'done', results });
    }
  };

  it('are told without their records, unless --details asks for them', async () => {
    stored = await openStoreOfRecords('an S3 server');
    fillMany(stored);
    const { stdout } = await status(stored);
    expect(stdout).not.toContain('HOST');
    expect(stdout.split('\n')).toHaveLength(101 + 3);
    expect(gets(stored)).toBe(0);
    expect((await status(stored, '--details')).stdout).toContain('HOST');
    expect(gets(stored)).toBe(101);
  });

  it('are JSON with --details, in the order of the indices', async () => {
    stored = await openStoreOfRecords('an S3 server');
    fillMany(stored);
    const read = JSON.parse((await status(stored, '--json', '--details')).stdout) as { indices: object[] };
    expect(read.indices).toHaveLength(101);
    expect(read.indices[100]).toMatchObject({ index: '100', host: 'node17', results: 1, bytes: 100 });
  });
});

describe.each(STORE_KINDS)('what capture status of %s prints to run again', (kind) => {
  it.each([
    [['--missing'], '4-9,12\n'],
    [['--failed'], '1\n'],
    [['--stale'], '3,11\n'],
    [['--preempted', '--failed'], '1-2\n'],
    [['--missing', '--failed', '--stale', '--format', 'lsf'], '1,3-9,11-12\n'],
    [['--missing', '--array', '0-12:2'], '4-8:2,12\n'],
    [['--missing', '--array', '0-12:2', '--format', 'torque'], '4,6,8,12\n'],
    [['--missing', '--array', '0-12:2%50', '--format', 'lines'], '4\n6\n8\n12\n'],
    [['--missing', '--array', '0-3'], ''],
  ])('%j', async (args, printed) => {
    stored = await openStoreOfRecords(kind);
    fill(stored);
    const ran = await status(stored, '--array', '0-12', ...args);
    expect(ran).toMatchObject({ stdout: printed, status: 1 });
  });
});

it('refuses to print an index that no scheduler takes, but as lines', async () => {
  stored = await openStoreOfRecords('a directory');
  stored.record({ index: 'left', attempt: 1, seq: 2, kind: 'failed', status: 1 });
  expect(await status(stored, '--failed')).toMatchObject({
    status: 64,
    stderr: expect.stringContaining('index left is no number'),
  });
  expect(await status(stored, '--failed', '--format', 'lines')).toMatchObject({ stdout: 'left\n' });
});

describe.each(STORE_KINDS)('one index of %s', (kind) => {
  const resources = {
    task: { cpuS: 90, peakMemoryBytes: 2 ** 30 },
    capture: { cpuS: 1, peakMemoryBytes: 2 ** 26 },
    job: { peakMemoryBytes: 2 ** 30, limitBytes: 2 ** 31 },
    from: '2026-11-22T11:00:00.000Z',
    stepS: 10,
    series: { taskMemory: { unit: 2 ** 20, mean: [0, 512, null, 1024], max: [0, 512, null, 1024] } },
  };
  const fillOne = (store: StoreOfRecords): void => {
    const index = '17';
    store.record({ index, attempt: 1, seq: 0, kind: 'started' });
    store.record({
      index,
      attempt: 1,
      seq: 3,
      kind: 'checkpoint',
      host: 'node1',
      at: '2026-11-22T11:45:00.000Z',
    });
    store.record({ index, attempt: 2, seq: 0, kind: 'started' });
    store.put('.capture/t/17/0002-000001.stored.json', 'x');
    const end = { signal: 'SIGKILL', status: 137 };
    const partial = { ...file('r.dat', 700, index), key: 'r.dat.17.partial-3' };
    const gone = { ...file('gone.dat', 7, index), key: 'gone.dat.17.partial-3' };
    const generation = {
      attempt: 3,
      generation: 2,
      at: '2026-11-22T11:50:00.000Z',
      members: [{ ...file('k.chk', 2048, index), key: 'k.chk.t.17.3-2' }],
    };
    store.put('r.dat.17.partial-3', 'x');
    store.record({
      index,
      attempt: 3,
      seq: 9,
      kind: 'failed',
      status: 137,
      host: 'node3',
      restored: '1-4',
      end,
      resources,
      partials: [partial, gone],
      generations: [generation, { ...generation, generation: 1, suspect: true }],
      results: [file('out/\u0007r.dat', 1536, index)],
      left: [{ path: 'late.dat', why: 'no room' }],
    } as never);
  };

  it('is told with its attempts, checkpoints and files, and what it has used', async () => {
    stored = await openStoreOfRecords(kind);
    fillOne(stored);
    const ran = await status(stored, '17');
    expect(ran.status).toBe(1);
    expect(ran.stdout.split('\n').map((line) => line.replaceAll(/ +/g, ' ').trim())).toEqual([
      'index 17 of t: failed 137',
      '',
      'ATTEMPT STARTED LASTED HOST FROM HOW IT ENDED',
      '1 2026-11-22 11:00:00Z 45 min 0 s node1 no last record: killed or taken over',
      '2 2026-11-22 11:00:00Z 1 h 0 min node17 no last record: killed or taken over; its newest record is damaged',
      '3 2026-11-22 11:00:00Z 1 h 0 min node3 1-4 failed: the task was ended by SIGKILL; capture exited 137',
      '',
      'CHECKPOINT COMMITTED WHAT IT IS',
      '3-2 2026-11-22 11:50:00Z safe (1 file, 2.0 KiB)',
      '3-1 2026-11-22 11:50:00Z may be half-written (1 file, 2.0 KiB)',
      '',
      'MD5 SIZE ATTEMPT CHECKPOINT FILE',
      'd41d8cd98f00b204e9800998ecf8427e 2.0 KiB 1 k.chk',
      '',
      'MD5 SIZE ATTEMPT RESULT',
      'd41d8cd98f00b204e9800998ecf8427e 1.5 KiB 1 out/\\x07r.dat',
      '',
      'MD5 SIZE ATTEMPT STAGED RESULT',
      'd41d8cd98f00b204e9800998ecf8427e 700 B 1 r.dat',
      '',
      'not stored: late.dat: no room',
      '',
      'attempt 3, a block for 10.0 s: peak memory of the task 1.0 GiB, CPU 1 min 30 s, job 1.0 GiB of 2.0 GiB',
      'memory ▁▅ █ highest sample 1.0 GiB',
      '',
    ]);
    expect(ran.stderr).toMatch(/0002-000001\.stored\.json cannot be used/);
  });

  it.each([
    ['done', '0001-000003.done.json'],
    ['failed 7', '0001-000003.failed-7.json'],
  ])('is %s by the name of its last record, if that is damaged, and exits 1', async (state, name) => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '3', attempt: 1, seq: 0, kind: 'started' });
    const generations = [
      {
        attempt: 1,
        generation: 1,
        at: '2026-11-22T11:50:00.000Z',
        members: [{ ...file('k.chk', 5, '3'), key: 'k.chk.t.3.1-1' }],
      },
    ];
    stored.record({ index: '3', attempt: 1, seq: 2, kind: 'checkpoint', generations } as never);
    stored.put(`.capture/t/3/${name}`, '{"damaged');
    const ran = await status(stored, '3');
    expect(ran.status).toBe(1);
    expect(ran.stdout.split('\n').map((line) => line.replaceAll(/ +/g, ' ').trim())).toEqual(
      expect.arrayContaining([
        `index 3 of t: ${state}; its newest record is damaged`,
        `1 2026-11-22 11:00:00Z 1 h 0 min node17 ${state}; its newest record is damaged`,
      ]),
    );
    expect(ran.stderr).toContain(`${name} cannot be used`);
    // The table reads the records of so few.
    expect((await status(stored)).status).toBe(1);
  });

  it('names its files in natural order', async () => {
    stored = await openStoreOfRecords(kind);
    const results = ['b', 'frame.10', 'frame.2', 'a/z', 'frame.1'].map((path) => file(path, 1, '3'));
    stored.record({ index: '3', attempt: 1, seq: 2, kind: 'done', results } as never);
    const { stdout } = await status(stored, '3', '--json');
    expect((JSON.parse(stdout) as { results: { path: string }[] }).results.map(({ path }) => path)).toEqual([
      'a/z',
      'b',
      'frame.1',
      'frame.2',
      'frame.10',
    ]);
  });

  it('is JSON on request, and 66 if there is nothing of it', async () => {
    stored = await openStoreOfRecords(kind);
    fillOne(stored);
    expect(JSON.parse((await status(stored, '--index', '17', '--json')).stdout)).toMatchObject({
      index: '17',
      state: 'failed',
      status: 137,
      attempts: [{ attempt: 1 }, { attempt: 2 }, { attempt: 3, restored: '1-4' }],
      results: [{ size: 1536 }],
      partials: [{ key: 'r.dat.17.partial-3' }],
    });
    expect(await status(stored, '18')).toMatchObject({ status: 66 });
  });
});
