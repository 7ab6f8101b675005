// Every way in which a file comes to be closed, each with real files.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { libcFunction } from '../../src/native/libc.ts';
import {
  ended,
  everything,
  freshDirectory,
  linkNameless,
  openNameless,
  startFixture,
  watched,
} from './support.ts';

const mkfifo = libcFunction<[path: string, mode: number]>('int mkfifo(const char*, unsigned int)');

describe('a file is reported as closed', () => {
  it('when its writer closes it, through the event loop', async () => {
    const { dir, heard } = await watched();
    fs.writeFileSync(`${dir}/r.dat`, 'x');
    expect(await heard((event) => event.path === 'r.dat')).toMatchObject({ how: 'close' });
  });

  it('not while a writer has it open, only at the close', async () => {
    const { dir, drained } = await watched();
    const fd = fs.openSync(`${dir}/r.dat`, 'w');
    fs.writeSync(fd, 'x');
    expect(drained()).toEqual([]);
    fs.closeSync(fd);
    expect(drained()).toEqual(['close r.dat']);
  });

  it('once for each writer that closes it', async () => {
    const { dir, drained } = await watched();
    const [one, two] = [fs.openSync(`${dir}/r.dat`, 'w'), fs.openSync(`${dir}/r.dat`, 'a')];
    fs.closeSync(one);
    expect(drained()).toEqual(['close r.dat']);
    fs.closeSync(two);
    expect(drained()).toEqual(['close r.dat']);
  });

  it('when it is renamed into place', async () => {
    const { dir, drained } = await watched();
    fs.writeFileSync(`${dir}/r.tmp`, 'x');
    drained();
    fs.renameSync(`${dir}/r.tmp`, `${dir}/r.dat`);
    expect(drained()).toEqual(['rename r.dat']);
  });

  it('when it is renamed into the tree from outside', async () => {
    const { dir, drained } = await watched();
    const outside = freshDirectory();
    fs.writeFileSync(`${outside}/r.dat`, 'x');
    fs.renameSync(`${outside}/r.dat`, `${dir}/r.dat`);
    expect(drained()).toEqual(['rename r.dat']);
  });

  it('when a directory above it is renamed into place', async () => {
    const { dir, drained } = await watched();
    const outside = freshDirectory();
    fs.mkdirSync(`${outside}/set/inner`, { recursive: true });
    fs.writeFileSync(`${outside}/set/one`, 'x');
    fs.writeFileSync(`${outside}/set/inner/two`, 'x');
    fs.renameSync(`${outside}/set`, `${dir}/set`);
    expect(drained().toSorted()).toEqual(['dir-rename set/inner/two', 'dir-rename set/one']);
  });

  it('when a hard link gives it a declared name', async () => {
    const { dir, drained } = await watched();
    const outside = freshDirectory();
    fs.writeFileSync(`${outside}/r.tmp`, 'x');
    fs.linkSync(`${outside}/r.tmp`, `${dir}/r.dat`);
    expect(drained()).toEqual(['link r.dat']);
  });

  it('when a hard link gives a declared name to a file that is still written', async () => {
    const { dir, drained } = await watched();
    const outside = freshDirectory();
    const fd = fs.openSync(`${outside}/r.tmp`, 'w');
    fs.linkSync(`${outside}/r.tmp`, `${dir}/r.dat`);
    expect(drained()).toEqual(['link r.dat']);
    fs.closeSync(fd);
  });

  it('when it is a symbolic link', async () => {
    const { dir, drained } = await watched();
    fs.symlinkSync('elsewhere', `${dir}/r.dat`);
    expect(drained()).toEqual(['link r.dat']);
  });

  it('when a link appears, without a drain', async () => {
    const { dir, heard } = await watched();
    fs.symlinkSync('elsewhere', `${dir}/r.dat`);
    expect(await heard((event) => event.path === 'r.dat')).toMatchObject({ how: 'link' });
  });

  it('when it had no name, gets one while it is open, and is then closed', async () => {
    const { dir, drained } = await watched();
    const fd = openNameless(dir, 'x');
    linkNameless(fd, `${dir}/r.dat`);
    expect(drained()).toEqual([]);
    fs.closeSync(fd);
    expect(drained()).toEqual(['close r.dat']);
  });

  it('when it had no name, got one, and was closed before any event was read', async () => {
    const { dir, drained } = await watched();
    const fd = openNameless(dir, 'x');
    linkNameless(fd, `${dir}/r.dat`);
    fs.closeSync(fd);
    expect(drained()).toEqual(['close r.dat']);
  });

  it('when it had no name, and its writer was gone before it got one', async () => {
    const { dir, drained } = await watched();
    const writer = openNameless(dir, 'x');
    const reader = fs.openSync(`/proc/self/fd/${writer}`, 'r');
    fs.closeSync(writer);
    expect(drained()).toEqual([]);
    linkNameless(reader, `${dir}/r.dat`);
    expect(drained()).toEqual(['link r.dat']);
    fs.closeSync(reader);
  });

  it('when cp -p has created it', async () => {
    const { dir, drained } = await watched();
    const outside = freshDirectory();
    fs.writeFileSync(`${outside}/r.dat`, 'x');
    execFileSync('cp', ['-p', `${outside}/r.dat`, `${dir}/r.dat`]);
    expect(drained()).toEqual(['close r.dat']);
  });

  it('when the last process that maps it writable has exited', async () => {
    const { dir, drained } = await watched();
    const child = startFixture('map-and-wait', `${dir}/r.dat`);
    await once(child.stdout ?? child, 'data');
    expect(drained()).toEqual([]);
    child.stdin?.end();
    await ended(child);
    expect(drained()).toEqual(['close r.dat']);
  });

  it('when its directory is created together with it', async () => {
    const { dir, drained } = await watched();
    fs.mkdirSync(`${dir}/out/deep`, { recursive: true });
    fs.writeFileSync(`${dir}/out/deep/r.dat`, 'x');
    expect(drained()).toEqual(['scan out/deep/r.dat']);
    fs.writeFileSync(`${dir}/out/deep/r.dat`, 'y');
    expect(drained()).toEqual(['close out/deep/r.dat']);
  });
});

it('a close says how many came before it, and how many before its name appeared', async () => {
  const dir = freshDirectory();
  fs.writeFileSync(`${dir}/old`, 'x');
  const { drained, events } = await watched({ dir });
  const write = (name: string): void => fs.writeFileSync(`${dir}/${name}`, 'y');
  const early = ['looked-at', 'waiting'].map((name, n) => {
    const fd = fs.openSync(`${dir}/${name}`, 'w');
    if (n === 0) drained();
    return fd;
  });
  write('first');
  write('second');
  for (const fd of early) fs.closeSync(fd);
  write('third');
  write('old');
  fs.renameSync(`${dir}/second`, `${dir}/moved`);
  drained();
  expect(events.map(({ path, seq, since }) => [path, seq, since])).toEqual([
    ['first', 1, 0],
    ['second', 2, 1],
    ['looked-at', 3, 0],
    ['waiting', 4, 0],
    ['third', 5, 4],
    ['old', 6, undefined],
    ['moved', 7, undefined],
  ]);
});

it('a new file is unclosed until it is closed, renamed away or removed', async () => {
  const { dir, drained, watcher } = await watched();
  const names = ['a', 'b', 'c'];
  const fds = names.map((name) => fs.openSync(`${dir}/${name}`, 'w'));
  fs.writeFileSync(`${dir}/done`, 'x');
  expect(drained()).toEqual(['close done']);
  expect(watcher.unclosed()).toEqual(names);
  fs.closeSync(fds[0] ?? -1);
  fs.renameSync(`${dir}/b`, `${dir}/b2`);
  fs.unlinkSync(`${dir}/c`);
  drained();
  expect(watcher.unclosed()).toEqual([]);
  for (const fd of fds.slice(1)) fs.closeSync(fd);
});

describe('nothing is reported', () => {
  it('for a file that is not declared', async () => {
    const { dir, drained } = await watched({
      interest: { wants: (path) => path === 'r.dat', canHold: (path) => path === '' },
    });
    fs.writeFileSync(`${dir}/other`, 'x');
    fs.symlinkSync('other', `${dir}/link`);
    fs.mkdirSync(`${dir}/sub`);
    fs.writeFileSync(`${dir}/sub/r.dat`, 'x');
    fs.writeFileSync(`${dir}/r.dat`, 'x');
    expect(drained()).toEqual(['close r.dat']);
  });

  it('for files that existed before', async () => {
    const dir = freshDirectory();
    fs.writeFileSync(`${dir}/old`, 'x');
    const { drained, watcher } = await watched({ dir });
    expect(drained()).toEqual([]);
    expect(await everything(watcher)).toMatchObject([
      { path: 'old', link: false, facts: { size: 1, links: 1 } },
    ]);
  });

  it('for a FIFO, a reader, a removal or a change of attributes', async () => {
    const dir = freshDirectory();
    fs.writeFileSync(`${dir}/old`, 'x');
    const { drained } = await watched({ dir });
    expect(mkfifo(`${dir}/fifo`, 0o600)).toBe(0);
    fs.readFileSync(`${dir}/old`);
    fs.chmodSync(`${dir}/old`, 0o600);
    fs.rmSync(`${dir}/old`);
    expect(drained()).toEqual([]);
  });
});

describe('names', () => {
  it('keep bytes that are not UTF-8, in events, directories and scans', async () => {
    const { dir, drained, watcher } = await watched();
    const raw = Buffer.concat([Buffer.from(`${dir}/d`), Buffer.of(0xff)]);
    fs.mkdirSync(raw);
    drained();
    fs.writeFileSync(Buffer.concat([raw, Buffer.from('/é'), Buffer.of(0xe9)]), 'x');
    expect(drained()).toEqual(['close d\udcff/é\udce9']);
    expect(await everything(watcher)).toMatchObject([{ path: 'd\udcff/é\udce9' }]);
  });

  it('may look like the name of a nameless file', async () => {
    const { dir, drained } = await watched();
    fs.writeFileSync(`${dir}/#123`, 'x');
    expect(drained()).toEqual(['close #123']);
  });
});
