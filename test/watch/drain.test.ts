// drainNow() and the event loop read the same queue on the same thread: neither may overtake the other.
import fs from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { openEpollReader, openPollReader } from '../../src/watch/inotify.ts';
import { startFixture, watched } from './support.ts';

it('a catch-up reports at once the closes of one file and those before it, and all others soon by itself', async () => {
  const { dir, events, watcher, heard } = await watched();
  for (const name of ['a', 'b', 'c']) fs.writeFileSync(`${dir}/${name}`, 'x');
  watcher.catchUp('b');
  expect(events.map(({ path }) => path)).toEqual(['a', 'b', 'c']);
  fs.writeFileSync(`${dir}/d`, 'x');
  fs.linkSync(`${dir}/a`, `${dir}/linked`);
  watcher.catchUp('b');
  expect(events).toHaveLength(3);
  await heard(({ path }) => path === 'd');
  fs.linkSync(`${dir}/a`, `${dir}/alone`);
  watcher.catchUp('b');
  await heard(({ path }) => path === 'alone');
});

describe.each([
  ['inotify', openEpollReader],
  ['inotify-read', openPollReader],
] as const)('drainNow with %s', (mode, open) => {
  it('reports what was closed before the call', async () => {
    const { dir, drained, watcher } = await watched({ system: { readers: [open] } });
    expect(watcher.mode).toBe(mode);
    for (let n = 0; n < 100; n += 1) {
      fs.writeFileSync(`${dir}/f${n}`, 'x');
      expect(drained()).toEqual([`close f${n}`]);
    }
  });

  it('keeps the order in which files were closed, no matter who reads', async () => {
    const { dir, events, watcher } = await watched({ system: { readers: [open] } });
    const child = startFixture('make-files', dir, '0', '5000');
    while (child.exitCode === null) {
      watcher.drainNow();
      // oxlint-disable-next-line no-await-in-loop -- the loop reads in between
      await setImmediate();
    }
    watcher.drainNow();
    expect(events.map((event) => event.path)).toEqual(Array.from({ length: 5000 }, (_, n) => `f${n}`));
  });

  it('continues with the next event when the receiver of one calls it', async () => {
    const { dir, events, until } = await watched({
      system: { readers: [open] },
      onClosed: (event, watcher) => {
        if (event.path !== 'f0') return;
        fs.writeFileSync(`${dir}/late`, 'x');
        watcher.drainNow();
        expect(events.map(({ path }) => path)).toEqual(['f0', 'f1', 'f2', 'late']);
      },
    });
    for (const name of ['f0', 'f1', 'f2']) fs.writeFileSync(`${dir}/${name}`, 'x');
    await until(() => events.length === 4);
    expect(events.map(({ path }) => path)).toEqual(['f0', 'f1', 'f2', 'late']);
  });
});

it('lets other work run between closes that arrived together, and keeps their order', async () => {
  const names = Array.from({ length: 1000 }, (_, n) => `f${n}`);
  const { dir, events, heard, until } = await watched();
  for (const name of names) fs.writeFileSync(`${dir}/${name}`, 'x');
  await heard((event) => event.path === 'f0');
  expect(events.length).toBeLessThan(200);
  await until(() => events.length === names.length);
  expect(events.map((event) => event.path)).toEqual(names);
});

it('reports a requested close before its turn, and all that came before it', async () => {
  let told = 0;
  const { dir, events, heard, watcher } = await watched();
  for (let n = 0; n < 1000; n += 1) fs.writeFileSync(`${dir}/f${n}`, 'x');
  await heard((event) => event.path === 'f0');
  watcher.catchUp('f500');
  told = events.length;
  watcher.drainNow();
  expect(told).toBeGreaterThan(500);
  expect(told).toBeLessThan(1000);
  expect(events.map((event) => event.path)).toEqual(Array.from({ length: 1000 }, (_, n) => `f${n}`));
});
