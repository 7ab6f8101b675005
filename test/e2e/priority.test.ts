// The task comes first: what the kernel knows of the priority of each thread of a sidecar at work.
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { libcFunction } from '../../src/native/libc.ts';
import { noise, openPlace, sidecarOf, until, type Place } from './support.ts';

const NICENESS = 10;
const [IOPRIO_GET, IOPRIO_WHO_PROCESS] = [252, 1];
const BEST_EFFORT_LAST = (2 << 13) | 7;
const syscall =
  libcFunction<[number: number, 'int', which: number, 'int', who: number]>('long syscall(long, ...)');

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

it('each thread of the sidecar computes and reads after the task, whenever it was started', async () => {
  // Large enough for a thread of its own.
  fs.writeFileSync(place.at('big'), noise(20 * 2 ** 20, 1));
  const task = 'cp big r.dat; while ! [ -e go ]; do sleep 0.05; done';
  const run = place.run(['-r', 'r.dat'], ['sh', '-c', task]);
  await until(() => place.keys().some((key) => key.startsWith('r.dat')), 'the result');
  const sidecar = sidecarOf(run.pid) ?? 0;
  const threads = fs.readdirSync(`/proc/${sidecar}/task`).map(Number);
  // One that reads, V8's and libuv's.
  expect(threads.length).toBeGreaterThan(5);
  expect(new Set(threads.map((thread) => nicenessOf(sidecar, thread)))).toEqual(new Set([NICENESS]));
  if (process.arch === 'x64')
    expect(
      new Set(threads.map((thread) => syscall(IOPRIO_GET, 'int', IOPRIO_WHO_PROCESS, 'int', thread))),
    ).toEqual(new Set([BEST_EFFORT_LAST]));
  fs.writeFileSync(place.at('go'), '');
  expect(await run.status).toBe(0);
}, 30_000);

/** Field 19 of proc_pid_stat(5). */
function nicenessOf(pid: number, thread: number): number {
  const stat = fs.readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]);
}
