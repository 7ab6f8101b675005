// What to ask the scheduler for, from the records of an array.
import { afterEach, describe, expect, it } from 'vitest';
import { suggestionText } from '../../../src/array/status/suggest.ts';
import type { Resources } from '../../../src/model/format/resources.ts';
import { run, type Ran } from '../ran.ts';
import { openStoreOfRecords, STORE_KINDS, type StoreOfRecords } from '../store-of-records.ts';

const MIB = 2 ** 20;
const HOUR_MS = 3_600_000;

describe('the suggestion', () => {
  const most = { memoryBytes: 4000 * MIB, timeMs: 70 * 60_000 };

  it.each([
    ['slurm', '--mem=4864M --time=01:25:00'],
    ['lsf', '-M 4864MB -W 01:25'],
    ['torque', '-l mem=4864mb,walltime=01:25:00'],
    ['lines', 'memory 4864 MiB\ntime 85 min'],
  ] as const)('is written as %s takes it, with 20 %% more, rounded up', (format, text) => {
    expect(suggestionText(most, format)).toBe(text);
  });

  it('leaves out what nobody has seen', () => {
    expect(suggestionText({ ...most, timeMs: undefined }, 'slurm')).toBe('--mem=4864M');
    expect(suggestionText({ ...most, memoryBytes: undefined }, 'torque')).toBe('-l walltime=01:25:00');
  });

  it('is one step for next to nothing, and takes days as hours', () => {
    expect(suggestionText({ memoryBytes: 0, timeMs: 0 }, 'slurm')).toBe('--mem=128M --time=00:05:00');
    expect(suggestionText({ memoryBytes: 0, timeMs: 100 * HOUR_MS }, 'slurm')).toBe(
      '--mem=128M --time=120:00:00',
    );
  });
});

let stored: StoreOfRecords | undefined;
afterEach(async () => {
  await stored?.close();
  stored = undefined;
});

function placeOf(one: StoreOfRecords | undefined): StoreOfRecords {
  if (one === undefined) throw new Error('no store is open');
  return one;
}

const used = (taskMiB: number | undefined, jobMiB?: number, limitMiB = 4096): { resources: Resources } => ({
  resources: {
    ...(taskMiB === undefined ? {} : { task: { cpuS: 1, peakMemoryBytes: taskMiB * MIB } }),
    capture: { cpuS: 1, peakMemoryBytes: 100 * MIB },
    ...(jobMiB === undefined ? {} : { job: { peakMemoryBytes: jobMiB * MIB, limitBytes: limitMiB * MIB } }),
    from: '2026-11-22T11:00:00.000Z',
    stepS: 10,
    series: {},
  },
});
/** It began at 11:00. */
const until = (time: string): { at: string } => ({ at: `2026-11-22T${time}:00.000Z` });

describe.each(STORE_KINDS)('capture status --suggest of %s', (kind) => {
  const suggest = (...args: readonly string[]): Promise<Ran> =>
    run('status', placeOf(stored), '--suggest', ...args);

  it('takes the most memory of all, and the time of the one that is done and took longest', async () => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '0', attempt: 1, seq: 2, kind: 'done', ...used(500), ...until('11:40') });
    stored.record({
      index: '1',
      attempt: 1,
      seq: 2,
      kind: 'failed',
      status: 1,
      ...used(900),
      ...until('19:00'),
    });
    stored.record({ index: '2', attempt: 1, seq: 2, kind: 'done', ...used(300, 2000), ...until('11:10') });
    const { stdout, stderr, status } = await suggest('--array', '0-3');
    expect({ stdout, status }).toEqual({ stdout: '--mem=2432M --time=00:50:00\n', status: 0 });
    expect(stderr).toContain(
      'highest of 3 runs: memory of the task and capture 2.0 GiB (index 2), time 40 min 0 s (index 0)',
    );
    expect(stderr).toContain('index 1 is not done, and has taken longer already: 8 h 0 min');
  });

  it('counts all attempts of an index: their time together, the most memory of any', async () => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '0', attempt: 1, seq: 2, kind: 'preempted', ...used(3000), ...until('12:00') });
    stored.record({ index: '0', attempt: 2, seq: 2, kind: 'done', ...used(100), ...until('11:10') });
    const { stdout } = await suggest('--format', 'lsf');
    expect(stdout).toBe('-M 3840MB -W 01:25\n');
  });

  it('warns of an index that failed with nearly all of its memory in use', async () => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '7', attempt: 1, seq: 2, kind: 'failed', status: 137, ...used(500, 3900) });
    stored.record({ index: '8', attempt: 1, seq: 2, kind: 'done', ...used(500, 3900) });
    const { stderr } = await suggest();
    expect(stderr).toContain('1 index may need more memory than was seen: 7');
  });

  it('exits 66 if no record says anything, as those of capture watch', async () => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '0', attempt: 1, seq: 1, kind: 'checkpoint' });
    stored.record({ index: '1', attempt: 1, seq: 1, kind: 'stored', ...used(undefined, 60) });
    const { stdout, stderr, status } = await suggest();
    expect({ stdout, status }).toEqual({ stdout: '', status: 66 });
    expect(stderr).toContain('no record says yet what a task has used');
  });

  it('is printed alone', async () => {
    stored = await openStoreOfRecords(kind);
    for (const other of [['--failed'], ['--json'], ['--watch'], ['--index', '7']])
      expect(await suggest(...other)).toMatchObject({ stdout: '', status: 64 });
  });
});
