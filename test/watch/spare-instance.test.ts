// Several watchers of one process for which there are not enough inotify instances: those that come last share one.
import fs from 'node:fs';
import { beforeEach, expect, it } from 'vitest';
import { libcInotify } from '../../src/watch/inotify.ts';
import { SpareInstance } from '../../src/watch/spare-instance.ts';
import { freshDirectory, type Watched, type WatchedOptions, watched } from './support.ts';

let open: (options?: WatchedOptions) => Promise<Watched>;
beforeEach(() => {
  const spare = new SpareInstance();
  let left = 2;
  const calls = {
    ...libcInotify,
    open: () => {
      if (left === 0) throw Object.assign(new Error('EMFILE: inotify_init1'), { code: 'EMFILE' });
      left -= 1;
      return libcInotify.open();
    },
  };
  open = (options) => watched({ ...options, spare, system: { calls } });
});

const close = (dir: string, name: string): void => fs.writeFileSync(`${dir}/${name}`, 'x');

it('all hear of closes in their own directories, by inotify, and of nothing else', async () => {
  const all = [await open(), await open(), await open()];
  for (const [n, { dir }] of all.entries()) close(dir, `r.${n}`);
  for (const [n, { heard }] of all.entries()) await heard(({ path }) => path === `r.${n}`);
  for (const [n, { dir, drained, events, watcher, warnings }] of all.entries()) {
    fs.mkdirSync(`${dir}/sub`);
    watcher.drainNow();
    close(`${dir}/sub`, 'deep');
    expect(drained()).toEqual([`close r.${n}`, 'close sub/deep']);
    expect(events).toHaveLength(2);
    expect(watcher.mode).toBe('inotify');
    expect(warnings).toEqual([]);
  }
});

it('there is one for watches that start all at once', async () => {
  const all = await Promise.all([open(), open(), open(), open()]);
  for (const { dir, drained, watcher } of all) {
    close(dir, 'r');
    expect(drained()).toEqual(['close r']);
    expect(watcher.mode).toBe('inotify');
  }
});

it('events that one reads for the others reach them soon, in order', async () => {
  await open();
  const [one, other] = [await open(), await open()];
  const names = Array.from({ length: 1000 }, (_, n) => `r.${n}`);
  for (const [n, name] of names.entries()) {
    close(other.dir, name);
    if (n % 100 === 0) one.watcher.drainNow();
  }
  expect(one.drained()).toEqual([]);
  await other.until(() => other.events.length === names.length);
  expect(other.events.map(({ path }) => path)).toEqual(names);
});

it('one that cannot wait gets at once what another has read for it', async () => {
  await open();
  const [one, other] = [await open(), await open()];
  close(other.dir, 'a');
  one.watcher.drainNow();
  close(other.dir, 'b');
  expect(other.drained()).toEqual(['close a', 'close b']);
});

it('one that reads while another is notified loses nothing', async () => {
  await open();
  const one = await open();
  const other = await open({ onClosed: () => one.watcher.drainNow() });
  for (let n = 0; n < 20; n += 1) for (const { dir } of [one, other]) close(dir, `r.${n}`);
  const names = Array.from({ length: 20 }, (_, n) => `close r.${n}`);
  expect(other.drained()).toEqual(names);
  expect(one.drained()).toEqual(names);
});

it('two that watch one directory both hear of it, and one continues when the other has ended', async () => {
  await open();
  const dir = freshDirectory();
  const [one, other] = [await open({ dir }), await open({ dir })];
  close(dir, 'a');
  expect([one.drained(), other.drained()]).toEqual([['close a'], ['close a']]);
  await one.watcher.close();
  close(dir, 'b');
  expect(other.drained()).toEqual(['close b']);
  expect(one.drained()).toEqual([]);
});

it('a directory that is removed and created again is watched', async () => {
  await open();
  const { dir, drained, watcher } = await open();
  for (const name of ['a', 'b']) {
    fs.mkdirSync(`${dir}/sub`);
    watcher.drainNow();
    close(`${dir}/sub`, name);
    expect(drained()).toEqual([`close sub/${name}`]);
    fs.rmSync(`${dir}/sub`, { recursive: true });
    watcher.drainNow();
  }
});

it('when their queue overflows, all of them scan everything; one with its own instance does not', async () => {
  const own = await open();
  const [one, other] = [await open(), await open()];
  const most = Number(fs.readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'));
  close(other.dir, 'before');
  for (let n = 0; n < most; n += 1) {
    close(one.dir, 'same');
    close(one.dir, 'others');
  }
  close(other.dir, 'lost');
  await other.heard(({ path }) => path === 'lost');
  await one.heard(({ path, how }) => path === 'others' && how === 'scan');
  expect([own.overflows(), one.overflows(), other.overflows()]).toEqual([0, 1, 1]);
});
