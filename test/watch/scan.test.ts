// The walk itself, without a watcher: what it finds, in which pieces, and when it gives up.
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { WorkDir } from '../../src/native/beneath.ts';
import { systemError } from '../../src/native/libc.ts';
import { findAll, listTree, listTreeInTurns, lookAt, lookClosely, type Walk } from '../../src/watch/scan.ts';
import { EVERYTHING, freshDirectory } from './support.ts';

function rootOf(dir: string): WorkDir {
  const fd = fs.openSync(dir, 'r');
  onTestFinished(() => fs.closeSync(fd));
  return { fd, path: dir };
}

/** A fresh directory with these files, each of one byte. */
function treeOf(...files: readonly string[]): string {
  const dir = freshDirectory();
  for (const file of files) {
    fs.mkdirSync(path.dirname(`${dir}/${file}`), { recursive: true });
    fs.writeFileSync(`${dir}/${file}`, 'x');
  }
  return dir;
}

function walkOf(dir: string, more: Partial<Walk> = {}): Walk {
  return {
    root: rootOf(dir),
    interest: EVERYTHING,
    onUnreadable: (_dir, error) => {
      throw error;
    },
    ...more,
  };
}

function found(walk: Walk): string[] {
  return [...listTree(walk)].flat().toSorted();
}

describe('a walk', () => {
  it('finds declared files and links at any depth, and follows no link', () => {
    const dir = treeOf('r.dat', 'sub/deep/k.chk', 'sub/deep/note', '.capture/lock');
    fs.symlinkSync('..', `${dir}/sub/loop`);
    const walk = walkOf(dir, { interest: { ...EVERYTHING, wants: (path) => !path.endsWith('note') } });
    expect(found(walk)).toEqual(['r.dat', 'sub/deep/k.chk', 'sub/loop']);
  });

  it('enters a directory before it reads it, and leaves out those that no longer exist', () => {
    const dir = treeOf('a/one', 'b/two');
    const entered: string[] = [];
    const walk = walkOf(dir, {
      enter: (at) => {
        entered.push(at);
        if (at === 'a') fs.writeFileSync(`${dir}/a/late`, 'x');
        return at !== 'b';
      },
    });
    expect(found(walk)).toEqual(['a/late', 'a/one']);
    expect(entered.toSorted()).toEqual(['', 'a', 'b']);
  });

  it('does not enter what cannot hold a declared file', () => {
    const dir = treeOf('a/one', 'b/two');
    const walk = walkOf(dir, { interest: { ...EVERYTHING, canHold: (at) => at !== 'b' } });
    expect(found(walk)).toEqual(['a/one']);
  });

  it('continues when a directory disappears during the walk', () => {
    const dir = treeOf('a/one', 'b/two');
    const walk = walkOf(dir, {
      enter: (at) => {
        if (at === 'b') fs.rmSync(`${dir}/b`, { recursive: true });
        return true;
      },
    });
    expect(found(walk)).toEqual(['a/one']);
  });

  it('reports a directory that cannot be read, and continues', () => {
    const dir = treeOf('one', 'locked/two');
    const unreadable: string[] = [];
    const walk = walkOf(dir, {
      enter: (at) => {
        // As for a user who is not root and has no right to it.
        if (at === 'locked') throw systemError('open', 'EACCES');
        return true;
      },
      onUnreadable: (at) => unreadable.push(at),
    });
    expect(found(walk)).toEqual(['one']);
    expect(unreadable).toEqual(['locked']);
  });

  it.each(['a walk that lists', 'a look at each file'])(
    'never leaves the work directory: %s',
    async (how) => {
      const outside = treeOf('secret', 'deep/secret');
      const dir = treeOf('d/own', 'd/deep/own');
      const away = freshDirectory();
      let swaps = 0;
      /** The task puts a link in the place of the directory at the worst instant. */
      const swap = (at: string): void => {
        if (at !== 'd') return;
        swaps += 1;
        fs.renameSync(`${dir}/d`, `${away}/d`);
        fs.symlinkSync(outside, `${dir}/d`);
      };
      const watchedInodes: number[] = [];
      const walk = walkOf(dir, {
        enter: (at, full) => {
          if (how.includes('lists')) swap(at);
          watchedInodes.push(fs.statSync(`${full}/.`).ino);
          return true;
        },
      });
      const paths: string[] = [];
      if (how.includes('lists')) paths.push(...found(walk));
      else {
        const looked = walkOf(dir, { enter: undefined });
        for await (const piece of listTreeInTurns(looked, new AbortController().signal)) paths.push(...piece);
        swap('d');
        expect(lookAt(looked.root, 'd/secret')).toBeUndefined();
      }
      expect(swaps).toBe(1);
      expect(paths.filter((file) => file.includes('secret'))).toEqual([]);
      expect(watchedInodes).not.toContain(fs.statSync(outside).ino);
    },
  );
});

describe('a walk in turns', () => {
  it('lets other work run in between, and returns every file once', async () => {
    const dir = treeOf(...Array.from({ length: 3000 }, (_, n) => `f${n}`));
    let turns = 0;
    const count = (): void => {
      turns += 1;
      timer = setImmediate(count);
    };
    let timer = setImmediate(count);
    const paths: string[] = [];
    for await (const piece of listTreeInTurns(walkOf(dir), new AbortController().signal)) {
      expect(piece.length).toBeLessThanOrEqual(256);
      paths.push(...piece);
    }
    clearImmediate(timer);
    expect(new Set(paths).size).toBe(3000);
    expect(paths).toHaveLength(3000);
    expect(turns).toBeGreaterThan(5);
  });

  it('ends when it is aborted', async () => {
    const dir = treeOf(...Array.from({ length: 600 }, (_, n) => `f${n}`));
    const stop = new AbortController();
    const walking = findAll(walkOf(dir), 'thread', stop.signal);
    stop.abort(new Error('enough'));
    await expect(walking).rejects.toThrow('enough');
  });
});

describe('findAll', () => {
  it.each(['thread', 'pool'] as const)(
    'returns the facts of every file, examined on the %s',
    async (lookOn) => {
      const dir = freshDirectory();
      fs.writeFileSync(`${dir}/one`, 'four', { mode: 0o640 });
      fs.linkSync(`${dir}/one`, `${dir}/two`);
      fs.symlinkSync('one', `${dir}/three`);
      const files = await findAll(walkOf(dir), lookOn);
      const lines = files.map(({ path, link, facts }) => `${path} ${link} ${facts.size} ${facts.links}`);
      expect(lines.toSorted()).toEqual(['one false 4 2', 'three true 3 1', 'two false 4 2']);
      expect(files).toContainEqual(lookAt(rootOf(dir), 'one'));
    },
  );

  it('leaves out a file that is gone when it is examined', () => {
    expect(lookAt(rootOf(freshDirectory()), 'gone')).toBeUndefined();
  });
});

describe('a look at one file', () => {
  it('says whether it is gone, or cannot be looked at', () => {
    const root = rootOf(treeOf('sub/a'));
    expect(lookClosely(root, 'sub/a')).toMatchObject({ path: 'sub/a', link: false });
    for (const path of ['b', 'sub/a/b', 'sub']) expect(lookClosely(root, path)).toBe('gone');
    // An error that says nothing about the file, on any file system: ENAMETOOLONG.
    const unreadable = `sub/${'x'.repeat(300)}`;
    expect(lookClosely(root, unreadable)).toMatchObject({ error: { code: 'ENAMETOOLONG' } });
    expect(lookAt(root, unreadable)).toBeUndefined();
  });
});
