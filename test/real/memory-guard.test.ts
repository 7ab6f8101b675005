// `capture array` in a memory cgroup that is too small for all of its tasks: the youngest goes before the kernel kills
// one, and goes on when there is room.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { BIN, openPlace, type Place } from '../e2e/support.ts';
import { attemptsIn, scratchOf } from '../many/support.ts';

const GROW = fileURLToPath(new URL('../many/fixtures/grow.mjs', import.meta.url));
const TASKS = [0, 1, 2];
/** Two of them fit with all that is capture's, three do not. */
const LIMIT_BYTES = 960 * 2 ** 20;

/** Version 1 where it has the memory controller, else 2 (cgroups(7)). */
const V1 = '/sys/fs/cgroup/memory';
const isV1 = fs.existsSync(`${V1}/memory.limit_in_bytes`);
const cgroup = `${isV1 ? V1 : '/sys/fs/cgroup'}/capture-test-${process.pid}`;

let place: Place;
beforeEach(() => {
  place = openPlace();
  fs.mkdirSync(cgroup);
  fs.writeFileSync(path.join(cgroup, isV1 ? 'memory.limit_in_bytes' : 'memory.max'), String(LIMIT_BYTES));
});
afterEach(() => {
  place.close();
  fs.rmdirSync(cgroup);
});

/** How many the kernel has killed for want of memory. */
function killed(): number {
  const text = fs.readFileSync(path.join(cgroup, isV1 ? 'memory.oom_control' : 'memory.events'), 'utf8');
  return Number(/^oom_kill (\d+)$/m.exec(text)?.[1]);
}

it('gives the youngest back, computes no step twice but the last, and the kernel kills none', async () => {
  const options = [
    '--array',
    '0-2',
    '--memory',
    '128MiB',
    '--cpus',
    '0.5',
    '-r',
    'result.dat',
    '-k',
    'state.chk',
  ];
  const enter = `echo $$ >${cgroup}/cgroup.procs && exec "$@"`;
  const array = [BIN, 'array', '--to', place.store, '--scratch', scratchOf(place), ...options];
  const task = [process.execPath, GROW, `${place.dir}/steps-{index}`];
  const run = place.exec(['sh', '-c', enter, 'sh', ...array, '--', ...task]);
  expect(await run.status, run.stderr()).toBe(0);
  expect(run.stderr()).toMatch(/memory runs short .*: index \d ends, and goes on later/);
  expect(killed()).toBe(0);
  const attempts = attemptsIn(place, 'grow.mjs');
  // The oldest is never given back.
  expect(attempts.get(0)).toBe(1);
  expect(Math.max(...attempts.values())).toBeGreaterThan(1);
  for (const index of TASKS) {
    expect(place.text(`result.dat.${index}`)).toBe('18 steps\n');
    const steps = fs
      .readFileSync(path.join(place.dir, `steps-${index}`), 'utf8')
      .trim()
      .split('\n');
    expect(new Set(steps).size).toBe(18);
    expect(steps.length - 18, `index ${index}: steps twice`).toBeLessThan(attempts.get(index) ?? 0);
  }
});
