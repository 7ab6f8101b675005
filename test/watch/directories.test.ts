// The tree changes while it is watched: nothing that is closed anywhere in it is missed.
import { once } from 'node:events';
import fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { libcFunction } from '../../src/native/libc.ts';
import { everything, freshDirectory, EVERYTHING, runFixture, startFixture, watched } from './support.ts';

const renameat2 = libcFunction<[number, string, number, string, number]>(
  'int renameat2(int, const char*, int, const char*, unsigned int)',
);
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
  it('that four processes make, 2,000 times over, loses none of the 20,000 files in it', async () => {
    const { dir, events, watcher } = await watched();
    const firsts = ['0', '5000', '10000', '15000'];
    await Promise.all(firsts.map((first) => runFixture('make-files', dir, first, '5000', '10')));
    watcher.drainNow();
    expect(new Set(events.map((event) => event.path)).size).toBe(20_000);
  });

  it('that is renamed while a file in it is written has its closes told by their last path', async () => {
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

  it('that is moved out is not watched, and is again when it has come back', async () => {
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

  it('that is moved out and back before anything was read stays watched', async () => {
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

  it('that moves twice before anything was read is known by its last path', async () => {
    const { dir, drained } = await watched();
    fs.mkdirSync(`${dir}/a/inner`, { recursive: true });
    drained();
    fs.renameSync(`${dir}/a`, `${dir}/b`);
    fs.renameSync(`${dir}/b`, `${dir}/c`);
    fs.writeFileSync(`${dir}/c/inner/r.dat`, 'x');
    expect(drained()).toContain('close c/inner/r.dat');
  });

  it('that changes places with another one keeps its closes apart from the other one', async () => {
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

  it('that is removed and made anew is watched anew', async () => {
    const { dir, drained } = await watched();
    for (let round = 0; round < 50; round += 1) {
      fs.mkdirSync(`${dir}/out`);
      fs.writeFileSync(`${dir}/out/r.dat`, 'x');
      expect(drained()).toContain('scan out/r.dat');
      fs.rmSync(`${dir}/out`, { recursive: true });
    }
  });

  it('that moves to where nothing is declared is not watched any more', async () => {
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
  it('is told as a link and never entered', async () => {
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
