// What a run has used stands in its last record and its last line.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { TELL_ALL, told } from '../support/messages.ts';
import { openPlace, type Place } from './support.ts';

const MIB = 2 ** 20;

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

it('what a task has used is in the last record and in the last line, also if it was short', async () => {
  const task = `$x = "x"; $x x= 150 << 20; while ((times)[0] < 0.3) {} open F, ">r.dat"; print F "x" x 3000000`;
  const run = place.run(['--index', '3', '-r', 'r.dat', ...TELL_ALL], ['perl', '-e', task]);
  expect(await run.status, run.stderr()).toBe(0);
  const used = place.records().at(-1)?.record.resources;
  expect(used?.task?.peakMemoryBytes).toBeGreaterThan(150 * MIB);
  expect(used?.task?.peakMemoryBytes).toBeLessThan(700 * MIB);
  expect(used?.task?.cpuS).toBeGreaterThanOrEqual(0.3);
  expect(used?.task?.writtenBytes).toBeGreaterThanOrEqual(3_000_000);
  expect(used?.capture).toMatchObject({ cpuS: expect.any(Number), peakMemoryBytes: expect.any(Number) });
  const end = told(run.stderr()).find(({ event }) => event === 'end');
  expect(end).toMatchObject({ cpuS: used?.task?.cpuS, peakMemoryBytes: used?.task?.peakMemoryBytes });
  expect(end?.msg).toMatch(/; peak memory of the task \d+\.\d MiB, CPU [\d.]+ m?s -> file:/);
});

it('what orphans of the task have used counts, too', async () => {
  const orphan = `(perl -e '$x = "x"; $x x= 150 << 20; while ((times)[0] < 0.3) {} open F, ">r.dat"; print F 1' & echo $! >pid)`;
  // Until it is waited for, which kill(2) notices: what the kernel counts of a process is known only then.
  const untilGone = 'until [ -s r.dat ] && ! kill -0 "$(cat pid)" 2>/dev/null; do sleep 0.05; done';
  const run = place.run(['--index', '3', '-r', 'r.dat'], ['sh', '-c', `${orphan}; ${untilGone}`]);
  expect(await run.status, run.stderr()).toBe(0);
  const used = place.records().at(-1)?.record.resources;
  expect(used?.task?.peakMemoryBytes).toBeGreaterThan(150 * MIB);
  expect(used?.task?.cpuS).toBeGreaterThanOrEqual(0.3);
});

it('a task that was never started has used nothing', async () => {
  const run = place.run(['--index', '3', '-r', 'r.dat'], ['./no-program']);
  expect(await run.status).toBe(127);
  for (const { record } of place.records()) expect(record.resources?.task).toBeUndefined();
});
