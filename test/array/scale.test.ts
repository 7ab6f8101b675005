// 10,000 indices with 80,000 records: what capture status asks of the store, and how much memory it takes.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BIN } from '../e2e/support.ts';
import { openStoreOfRecords, STORE_KINDS, type StoreOfRecords } from './store-of-records.ts';

const INDICES = 10_000;
const PAGE = 1000;
const MOST_KIB = 160 * 1024;
/** Two attempts each: one was preempted, and one is done, or failed. */
const RECORDS = [
  '0001-000000.started',
  '0001-000001.started',
  '0001-000006.checkpoint',
  '0001-000008.preempted',
  '0002-000000.started',
  '0002-000001.started',
  '0002-000004.checkpoint',
];
const lastOf = (at: number): string => (at % 100 === 7 ? '0002-000005.failed-1' : '0002-000005.done');

const fill = (store: StoreOfRecords): void => {
  for (let at = 0; at < INDICES; at += 1)
    for (const name of [...RECORDS, lastOf(at)]) store.put(`.capture/t/${at}/${name}.json`, 'x');
};

interface Ran {
  readonly stdout: string;
  readonly status: number | null;
  readonly peakKiB: number;
}

/** The highest memory that was seen until the end: it only grows (VmHWM, proc_pid_status(5)). */
async function status({ url, env }: StoreOfRecords, ...args: readonly string[]): Promise<Ran> {
  const child = spawn(BIN, ['status', url, ...args], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let peakKiB = 0;
  const look = (): void => {
    try {
      const found = /^VmHWM:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${child.pid}/status`, 'utf8'));
      peakKiB = Math.max(peakKiB, Number(found?.[1] ?? 0));
    } catch {
      // It has ended.
    }
  };
  const looking = setInterval(look, 10);
  child.stdout.on('data', look);
  const [stdout] = await Promise.all([text(child.stdout), once(child, 'close')]);
  clearInterval(looking);
  return { stdout, status: child.exitCode, peakKiB };
}

describe.each(STORE_KINDS)('10,000 indices in %s', (kind) => {
  let stored: StoreOfRecords;
  beforeAll(async () => {
    stored = await openStoreOfRecords(kind, '/dev/shm');
    fill(stored);
  });
  afterAll(() => stored.close());

  it('are told from listings alone, in bounded memory', async () => {
    const ran = await status(stored, '--json', '--array', '0-10049');
    const { counts, indices } = JSON.parse(ran.stdout) as { counts: object; indices: unknown[] };
    expect(counts).toMatchObject({ failed: 100, missing: 50, done: 9900 });
    expect(indices).toHaveLength(10_050);
    expect(ran.status).toBe(1);
    expect(ran.peakKiB).toBeGreaterThan(0);
    expect(ran.peakKiB).toBeLessThan(MOST_KIB);
    if (stored.server === undefined) return;
    const asked = stored.server.served.map(({ operation }) => operation);
    expect(new Set(asked)).toEqual(new Set(['ListObjectsV2']));
    // The folder of the task; two pages, to see that there are many; each first character; the pages of each digit.
    const parts = 64 - 10;
    const ofZero = 1;
    const ofEachOther = Math.ceil((1111 * 8) / PAGE);
    expect(asked).toHaveLength(1 + 2 + parts + ofZero + 9 * ofEachOther);
  });

  it('are printed as a set to run again', async () => {
    const { stdout } = await status(stored, '--failed');
    expect(stdout).toBe('7-9907:100\n');
  });
});
