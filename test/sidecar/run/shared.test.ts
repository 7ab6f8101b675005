import { expect, it } from 'vitest';
import type { Settings } from '../../../src/model/format/settings.ts';
import type { Pool } from '../../../src/read/workers.ts';
import { Shared } from '../../../src/sidecar/run/shared.ts';

const to = (url: string): Settings =>
  ({
    to: { url, flags: [], unfenced: false },
    workers: 'auto',
    spoolDir: undefined,
    spoolLimitBytes: 0,
  }) as unknown as Settings;

function burn(ms: number): void {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
}

it('tasks with the same store share threads and places, tasks with different stores share nothing', async () => {
  const shared = new Shared({ isMany: true });
  const closed: string[] = [];
  const open = (name: string) => (): Pool => ({
    open: () => {
      throw new Error('nobody reads here');
    },
    close: async () => void closed.push(name),
  });
  const [a, b] = [
    shared.pushResources(to('s3://lab/a'), open('a')),
    shared.pushResources(to('s3://lab/a'), open('b')),
  ];
  const c = shared.pushResources(to('s3://lab/c'), open('c'));
  expect(a.value).toBe(b.value);
  expect(c.value.places).not.toBe(a.value.places);
  await a.release();
  await c.release();
  expect(closed).toEqual(['c']);
  await b.release();
  expect(closed).toEqual(['c', 'a']);
});

it('each of several runs is charged its part of the CPU time, for the time in which it existed', () => {
  const shared = new Shared({ isMany: true });
  burn(20);
  const first = shared.begin();
  burn(100);
  const alone = first.cpuS();
  const second = shared.begin();
  burn(100);
  const [a, b] = [first.cpuS() - alone, second.cpuS()];
  expect(alone).toBeGreaterThan(0);
  expect(first.memoryPart()).toBe(0.5);
  // The same time, but for what passed between the two questions.
  expect(Math.abs(a - b)).toBeLessThan(0.02);
  second.end();
  expect(first.memoryPart()).toBe(1);
});

it('a single run is charged everything that its process has used', () => {
  const run = new Shared({ isMany: false }).begin();
  const { user, system } = process.cpuUsage();
  expect(run.cpuS()).toBeGreaterThanOrEqual((user + system) / 1e6);
});
