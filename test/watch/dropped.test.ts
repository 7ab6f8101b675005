// What is known of closes that the kernel dropped, as its queue was full (inotify(7), IN_Q_OVERFLOW).
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { expect, it, onTestFinished } from 'vitest';
import { openWitness, type Witness } from '../../src/watch/witness.ts';
import { watched } from './support.ts';

/** The test is the launcher: it lives on, and what it starts is the task. */
function ownWitness(): Witness | undefined {
  const witness = openWitness({ launcher: process.pid, self: process.ppid, token: 'none' });
  onTestFinished(() => witness?.close());
  return witness;
}

/** Closes two files in turn, as the kernel joins equal events, more often than its queue holds. The loop stands still. */
function overflow(dir: string): void {
  const limit = Number(fs.readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'));
  for (const name of ['a', 'b']) fs.writeFileSync(`${dir}/${name}`, 'x');
  for (let n = 0; n < limit; n += 1) fs.closeSync(fs.openSync(`${dir}/${n % 2 === 0 ? 'a' : 'b'}`, 'r+'));
}

it('each may be by a process that has died meanwhile, also for a file whose earlier close was read', async () => {
  const { dir, events, overflows, until, watcher } = await watched({ witness: ownWitness() });
  fs.writeFileSync(`${dir}/r.dat`, 'whole');
  overflow(dir);
  spawnSync('sh', ['-c', 'exec 3> torn; printf half >&3; kill -9 $$'], { cwd: dir });
  watcher.catchUp('r.dat');
  await until(() => events.some(({ path }) => path === 'torn'));
  expect(overflows()).toBe(1);
  expect(events.filter(({ evidence }) => evidence !== 'doubtful')).toEqual([]);
});

it('none is called clean if nobody has died', async () => {
  const { dir, events, until } = await watched({ witness: ownWitness() });
  overflow(dir);
  fs.writeFileSync(`${dir}/last`, 'x');
  await until(() => events.some(({ path }) => path === 'last'));
  expect(events.filter(({ evidence }) => evidence !== 'unknown')).toEqual([]);
});

it('one of them may be of a file that was just created: it is not a link', async () => {
  const { dir, events, until, watcher } = await watched({ witness: ownWitness() });
  const fd = fs.openSync(`${dir}/made`, 'w');
  fs.writeSync(fd, 'half');
  overflow(dir);
  fs.closeSync(fd);
  watcher.drainNow();
  await until(() => events.some(({ path }) => path === 'made'));
  expect(events.filter(({ path }) => path === 'made')).toMatchObject([{ how: 'scan', evidence: 'unknown' }]);
});

it('one of them may be of the requested file', async () => {
  const { dir, events, watcher } = await watched({ witness: ownWitness() });
  overflow(dir);
  fs.writeFileSync(`${dir}/r.dat`, 'x');
  watcher.catchUp('r.dat');
  expect(events.at(-1)).toMatchObject({ path: 'r.dat', how: 'scan', evidence: 'unknown' });
});
