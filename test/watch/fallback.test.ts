// A machine on which inotify is short of something, or useless, or missing: files are found all the same,
// and the user is told once what is lost and how to mend it.
import fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CaptureError } from '../../src/model/errors.ts';
import { systemError } from '../../src/native/libc.ts';
import {
  libcInotify,
  openEpollReader,
  openPollReader,
  type InotifyCalls,
  type OpenReader,
} from '../../src/watch/inotify.ts';
import type { Subscribe } from '../../src/watch/watching.ts';
import { everything, freshDirectory, watched } from './support.ts';

const RESCAN_MS = 50;

/** As if libuv had changed its order: the events stay in the kernel. */
const deafReader: OpenReader = (calls) => ({ ...openEpollReader(calls), listen: () => undefined });

function fails(call: string, code: string): never {
  throw systemError(call, code);
}

/** As a sandbox does that has no inotify at all. */
const noInotify: InotifyCalls = { ...libcInotify, open: () => fails('inotify_init1', 'ENOSYS') };

function noSubscription(): never {
  throw new Error('no inotify instance is left');
}

describe('without a reader on the event loop', () => {
  it('a thread waits for the events instead', async () => {
    const { dir, watcher, heard, warnings } = await watched({
      system: { readers: [deafReader, openPollReader] },
    });
    expect(watcher.mode).toBe('inotify-read');
    expect(watcher.fallback).toContain('event loop');
    fs.writeFileSync(`${dir}/r.dat`, 'x');
    expect(await heard((event) => event.path === 'r.dat')).toMatchObject({ how: 'close' });
    expect(warnings).toEqual([]);
  });
});

describe('when no watch is left', () => {
  const calls = { ...libcInotify, add: () => fails('inotify_add_watch', 'ENOSPC') };

  it('the portable watcher reports a file once it is quiet', async () => {
    const { dir, watcher, heard, warnings } = await watched({ system: { calls } });
    expect(watcher.mode).toBe('portable');
    expect(watcher.fallback).toContain('ENOSPC: inotify_add_watch');
    expect(warnings).toEqual([expect.stringMatching(/have been quiet.*max_user_watches/)]);
    fs.writeFileSync(`${dir}/r.dat`, 'x');
    fs.mkdirSync(`${dir}/sub`);
    fs.writeFileSync(`${dir}/sub/deep`, 'x');
    expect(await heard((event) => event.path === 'r.dat')).toMatchObject({ how: 'quiet' });
    expect(await heard((event) => event.path === 'sub/deep')).toMatchObject({ how: 'quiet' });
  });

  it('only scans find files if the portable watcher cannot start either', async () => {
    const { dir, events, heard, warnings } = await watched({
      system: { calls, subscribe: noSubscription },
      rescanMs: RESCAN_MS,
    });
    expect(warnings).toEqual([expect.stringMatching(/a scan every 50 ms finds files.*max_user_watches/)]);
    fs.writeFileSync(`${dir}/r.dat`, 'x');
    await heard((event) => event.path === 'r.dat');
    fs.writeFileSync(`${dir}/later`, 'x');
    await heard((event) => event.path === 'later');
    expect(events).toHaveLength(2);
  });
});

describe('when no instance is left', () => {
  it('only scans find files: the portable watcher would wait for an instance for ever', async () => {
    const { dir, watcher, heard, warnings } = await watched({
      system: {
        calls: { ...libcInotify, open: () => fails('inotify_init1', 'EMFILE') },
        subscribe: () => new Promise(() => undefined),
      },
      rescanMs: RESCAN_MS,
    });
    expect(watcher).toMatchObject({ mode: 'portable', fallback: 'EMFILE: inotify_init1' });
    expect(warnings).toEqual([expect.stringMatching(/a scan every 50 ms finds files.*max_user_instances/)]);
    fs.writeFileSync(`${dir}/r.dat`, 'x');
    expect(await heard((event) => event.path === 'r.dat')).toMatchObject({ how: 'quiet' });
  });
});

it('a machine without inotify uses the portable watcher', async () => {
  const { dir, watcher, heard, warnings } = await watched({ system: { calls: noInotify } });
  expect(watcher).toMatchObject({ mode: 'portable', fallback: 'ENOSYS: inotify_init1' });
  expect(warnings).toHaveLength(1);
  fs.writeFileSync(`${dir}/r.dat`, 'x');
  await heard((event) => event.path === 'r.dat');
});

it('without inotify and @parcel/watcher, scans find files, and a warning names both', async () => {
  const subscribe: Subscribe = async () => {
    throw new CaptureError(70, 'cannot load @parcel/watcher: no binary of it is in node_modules');
  };
  const { dir, heard, warnings } = await watched({
    system: { calls: noInotify, subscribe },
    rescanMs: RESCAN_MS,
  });
  expect(warnings).toEqual([
    expect.stringMatching(/ENOSYS: inotify_init1, and cannot load @parcel\/watcher: .*; a scan every 50 ms/),
  ]);
  fs.writeFileSync(`${dir}/r.dat`, 'x');
  await heard((event) => event.path === 'r.dat');
});

it('the portable watcher waits while a file still changes', async () => {
  const { dir, events, heard, watcher } = await watched({ system: { calls: noInotify } });
  const fd = fs.openSync(`${dir}/r.dat`, 'w');
  const writing = setInterval(() => fs.writeSync(fd, 'more, '), 100);
  fs.writeFileSync(`${dir}/done`, 'x');
  await heard((event) => event.path === 'done');
  expect(events.map((event) => event.path)).toEqual(['done']);
  clearInterval(writing);
  fs.closeSync(fd);
  await heard((event) => event.path === 'r.dat');
  expect(await everything(watcher)).toHaveLength(2);
});

describe('when watches run out in the middle of a run', () => {
  it('the rest is scanned, which a message says once', async () => {
    const add: typeof libcInotify.add = (fd, path, mask) =>
      /\/[bc]$/.test(fs.realpathSync(path))
        ? fails('inotify_add_watch', 'ENOSPC')
        : libcInotify.add(fd, path, mask);
    const { dir, watcher, drained, heard, warnings } = await watched({
      system: { calls: { ...libcInotify, add } },
      rescanMs: RESCAN_MS,
    });
    for (const name of ['a', 'b', 'c']) fs.mkdirSync(`${dir}/${name}`);
    drained();
    expect(watcher.mode).toBe('inotify');
    fs.writeFileSync(`${dir}/a/watched`, 'x');
    fs.writeFileSync(`${dir}/c/unwatched`, 'x');
    expect(drained()).toEqual(['close a/watched']);
    expect(await heard((event) => event.path === 'c/unwatched')).toMatchObject({ how: 'scan' });
    expect(warnings).toEqual([expect.stringContaining('max_user_watches')]);
  });
});

describe('on a network file system', () => {
  const NFS = 0x6969;

  it('a scan reports a file whose event never came, once for each change', async () => {
    const dir = freshDirectory();
    fs.writeFileSync(`${dir}/old`, 'x');
    fs.mkdirSync(`${dir}/far`);
    // Another node writes below `far`: here the watch hears nothing of it.
    const silent = freshDirectory();
    const add: typeof libcInotify.add = (fd, path, mask) =>
      libcInotify.add(fd, fs.realpathSync(path).endsWith('/far') ? silent : path, mask);
    const { drained, heard, events, warnings } = await watched({
      dir,
      rescanMs: RESCAN_MS,
      system: { fileSystemType: () => NFS, calls: { ...libcInotify, add } },
    });
    expect(warnings).toEqual([expect.stringContaining('network file system (nfs)')]);
    fs.writeFileSync(`${dir}/far/one`, 'x');
    expect(await heard((event) => event.path === 'far/one')).toMatchObject({ how: 'scan' });
    fs.writeFileSync(`${dir}/near`, 'x');
    expect(drained()).toContain('close near');
    fs.writeFileSync(`${dir}/far/two`, 'x');
    await heard((event) => event.path === 'far/two');
    // Neither `old`, nor what was told by its event, nor the first file a second time.
    expect(events.map((event) => event.path)).toEqual(['far/one', 'near', 'far/two']);
  });
});
