// The tree changes while it is watched: nothing that is closed anywhere in it is missed.
import { once } from 'node:events';
import fs from 'node:fs';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type * as Clock from '../../src/native/clock.ts';
import { libcFunction } from '../../src/native/libc.ts';
import {
  everything,
  freshDirectory,
  EVERYTHING,
  openNameless,
  runFixture,
  startFixture,
  watched,
} from './support.ts';

const renameat2 = libcFunction<[number, string, number, string, number]>(
  'int renameat2(int, const char*, int, const char*, unsigned int)',
);
let stepMs: (() => number) | undefined;
vi.mock('../../src/native/clock.ts', async (original) => {
  const clock = await original<typeof Clock>();
  return { ...clock, threadCpuMs: () => stepMs?.() ?? clock.threadCpuMs() };
});

const AT_FDCWD = -100;
const RENAME_EXCHANGE = 2;

/** Watches of this process, as the kernel counts them (proc(5), fdinfo). */
function watchCount(): number {
  const infos = fs.readdirSync('/proc/self/fd').map((fd) => {
    const info = `/proc/self/fdinfo/${fd}`;
    return fs.existsSync(info) ? fs.readFileSync(info, 'utf8') : '';
  });
  return infos.join('').split('inotify wd:').length - 1;
}

describe('a directory', () => {
  it('that four processes create, 2,000 times over, loses none of its 20,000 files', async () => {
    const { dir, events, watcher } = await watched();
    const firsts = ['0', '5000', '10000', '15000'];
    await Promise.all(firsts.map((first) => runFixture('make-files', dir, first, '5000', '10')));
    watcher.drainNow();
    expect(new Set(events.map((event) => event.path)).size).toBe(20_000);
  });

  it('that is renamed while a file in it is written has its closes reported by their last path', async () => {
    const { dir, events, watcher } = await watched();
    const child = startFixture('rename-while-writing', dir, '300');
    const [last] = (await once(child.stdout ?? child, 'data')) as [Buffer];
    watcher.drainNow();
    // Of the last file the close, or, if nothing was read before, that its directory was renamed; of all others the
    // last rename, which tells everything that is in it once more.
    const toldLast = new Map(events.map(({ path }) => [path.replace(/^.*\//, ''), path]));
    const name = String(last).trim();
    for (let round = 0; round < 300; round += 1) {
      expect(toldLast.get(`f${round}`)).toBe(`${name}/inner/f${round}`);
    }
  });

  it('that is moved out is not watched, and is watched again when it returns', async () => {
    const { dir, drained } = await watched();
    const outside = freshDirectory();
    fs.mkdirSync(`${dir}/set/inner`, { recursive: true });
    drained();
    expect(watchCount()).toBe(3);
    fs.renameSync(`${dir}/set`, `${outside}/set`);
    drained();
    expect(watchCount()).toBe(1);
    fs.writeFileSync(`${outside}/set/inner/one`, 'x');
    expect(drained()).toEqual([]);
    fs.renameSync(`${outside}/set`, `${dir}/back`);
    expect(drained()).toEqual(['dir-rename back/inner/one']);
    fs.writeFileSync(`${dir}/back/inner/two`, 'x');
    expect(drained()).toEqual(['close back/inner/two']);
  });

  it('with very many below it holds up nothing else: a walk in turns tells and watches most of them', async () => {
    const { dir, drained, events, until } = await watched();
    const outside = freshDirectory();
    const inner = Array.from({ length: 40 }, (_, at) => `in/${at}`);
    for (const name of inner) fs.mkdirSync(`${outside}/${name}`, { recursive: true });
    for (const name of inner) fs.writeFileSync(`${outside}/${name}/one`, 'x');
    // Each step takes longer than all of them may.
    let cpuMs = 0;
    stepMs = () => (cpuMs += 10_000);
    onTestFinished(() => (stepMs = undefined));
    fs.renameSync(`${outside}/in`, `${dir}/in`);
    expect(drained()).toEqual([]);
    await until(() => events.length === 40);
    drained();
    for (const name of inner) fs.writeFileSync(`${dir}/${name}/two`, 'x');
    expect(drained()).toEqual(inner.map((name) => `close ${name}/two`));
    fs.renameSync(`${dir}/in`, `${outside}/in`);
    drained();
    expect(watchCount()).toBeGreaterThan(1);
    await expect.poll(watchCount).toBe(1);
  });

  it('with very many names holds up nothing else when a nameless file in it is closed: a walk looks at them', async () => {
    const { dir, drained, events, until } = await watched();
    const nameless = openNameless(dir, 'x');
    for (let n = 0; n < 200; n += 1) fs.writeFileSync(`${dir}/${n}`, 'x');
    drained();
    // Each look takes longer than all of them may.
    let cpuMs = 0;
    stepMs = () => (cpuMs += 10_000);
    onTestFinished(() => (stepMs = undefined));
    fs.closeSync(nameless);
    expect(drained()).toEqual([]);
    await until(() => events.filter(({ how }) => how === 'scan').length === 200);
  });

  it('that is moved out and back before any event was read stays watched', async () => {
    const { dir, drained } = await watched();
    const outside = freshDirectory();
    fs.mkdirSync(`${dir}/set/inner`, { recursive: true });
    drained();
    fs.renameSync(`${dir}/set`, `${outside}/set`);
    fs.renameSync(`${outside}/set`, `${dir}/set`);
    drained();
    fs.writeFileSync(`${dir}/set/inner/one`, 'x');
    expect(drained()).toEqual(['close set/inner/one']);
  });

  it('that is moved twice before any event was read is known by its last path', async () => {
    const { dir, drained } = await watched();
    fs.mkdirSync(`${dir}/a/inner`, { recursive: true });
    drained();
    fs.renameSync(`${dir}/a`, `${dir}/b`);
    fs.renameSync(`${dir}/b`, `${dir}/c`);
    fs.writeFileSync(`${dir}/c/inner/r.dat`, 'x');
    expect(drained()).toContain('close c/inner/r.dat');
  });

  it('that is swapped with another one keeps its closes apart from the other’s', async () => {
    const { dir, drained, heard } = await watched();
    for (const name of ['a', 'b']) {
      fs.mkdirSync(`${dir}/${name}`);
      fs.writeFileSync(`${dir}/${name}/was-${name}`, 'x');
    }
    drained();
    expect(renameat2(AT_FDCWD, `${dir}/a`, AT_FDCWD, `${dir}/b`, RENAME_EXCHANGE)).toBe(0);
    // What the events cannot tell is mended by a walk, which a drain starts and does not wait for.
    drained();
    await heard(({ path, how }) => path === 'b/was-a' && how === 'scan');
    await heard(({ path, how }) => path === 'a/was-b' && how === 'scan');
    drained();
    fs.writeFileSync(`${dir}/a/one`, 'x');
    fs.writeFileSync(`${dir}/b/two`, 'x');
    expect(drained()).toEqual(['close a/one', 'close b/two']);
  });

  it('that is removed and created again is watched again', async () => {
    const { dir, drained } = await watched();
    for (let round = 0; round < 50; round += 1) {
      fs.mkdirSync(`${dir}/out`);
      fs.writeFileSync(`${dir}/out/r.dat`, 'x');
      expect(drained()).toContain('scan out/r.dat');
      fs.rmSync(`${dir}/out`, { recursive: true });
    }
  });

  it('that is moved to a place where nothing is declared is no longer watched', async () => {
    const interest = {
      wants: EVERYTHING.wants,
      canHold: (path: string) => path !== 'away' && EVERYTHING.canHold(path),
    };
    const { dir, drained } = await watched({ interest });
    fs.mkdirSync(`${dir}/set`);
    drained();
    expect(watchCount()).toBe(2);
    fs.renameSync(`${dir}/set`, `${dir}/away`);
    fs.writeFileSync(`${dir}/away/r.dat`, 'x');
    expect(drained()).toEqual([]);
    expect(watchCount()).toBe(1);
  });
});

describe('a symbolic link to a directory', () => {
  it('is reported as a link and never entered', async () => {
    const outside = freshDirectory();
    fs.writeFileSync(`${outside}/old`, 'x');
    const { dir, drained, watcher } = await watched();
    fs.symlinkSync(outside, `${dir}/link`);
    expect(drained()).toEqual(['link link']);
    fs.writeFileSync(`${outside}/new`, 'x');
    expect(drained()).toEqual([]);
    expect(await everything(watcher)).toMatchObject([{ path: 'link', link: true }]);
  });
});
