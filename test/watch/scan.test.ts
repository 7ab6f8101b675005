// The walk itself, without a watcher: what it finds, in which pieces, and when it gives up.
import fs from 'node:fs';
import mock from 'mock-fs';
import { afterEach, describe, expect, it } from 'vitest';
import { findAll, listTree, listTreeInTurns, lookAt, type Walk } from '../../src/watch/scan.ts';
import { EVERYTHING, freshDirectory } from './support.ts';

afterEach(() => mock.restore());

function walkOf(root: string, more: Partial<Walk> = {}): Walk {
  return {
    root,
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
    mock({
      '/w': {
        'r.dat': 'x',
        sub: { deep: { 'k.chk': 'x', note: 'x' }, loop: mock.symlink({ path: '..' }) },
        '.capture': { lock: '' },
      },
    });
    const walk = walkOf('/w', { interest: { ...EVERYTHING, wants: (path) => !path.endsWith('note') } });
    expect(found(walk)).toEqual(['r.dat', 'sub/deep/k.chk', 'sub/loop']);
  });

  it('enters a directory before it reads it, and leaves out those that are none any more', () => {
    mock({ '/w': { a: { one: 'x' }, b: { two: 'x' } } });
    const entered: string[] = [];
    const walk = walkOf('/w', {
      enter: (dir) => {
        entered.push(dir);
        if (dir === 'a') fs.writeFileSync('/w/a/late', 'x');
        return dir !== 'b';
      },
    });
    expect(found(walk)).toEqual(['a/late', 'a/one']);
    expect(entered.toSorted()).toEqual(['', 'a', 'b']);
  });

  it('does not enter what cannot hold a declared file', () => {
    mock({ '/w': { a: { one: 'x' }, b: { two: 'x' } } });
    const walk = walkOf('/w', { interest: { ...EVERYTHING, canHold: (dir) => dir !== 'b' } });
    expect(found(walk)).toEqual(['a/one']);
  });

  it('goes on when a directory vanishes under it', () => {
    mock({ '/w': { a: { one: 'x' }, b: { two: 'x' } } });
    const walk = walkOf('/w', {
      enter: (dir) => {
        if (dir === 'b') fs.rmSync('/w/b', { recursive: true });
        return true;
      },
    });
    expect(found(walk)).toEqual(['a/one']);
  });

  it('reports a directory that cannot be read, and goes on', () => {
    const dir = freshDirectory();
    fs.writeFileSync(`${dir}/one`, 'x');
    fs.mkdirSync(`${dir}/${'d'.repeat(200)}`);
    // With the directory's name the path is longer than PATH_MAX: ENAMETOOLONG, also for root.
    const root = `${dir}${'/.'.repeat((4000 - dir.length) / 2)}`;
    const unreadable: string[] = [];
    expect(found(walkOf(root, { onUnreadable: (at) => unreadable.push(at) }))).toEqual(['one']);
    expect(unreadable).toEqual(['d'.repeat(200)]);
  });
});

describe('a walk in turns', () => {
  it('lets other work run in between, and gives every file once', async () => {
    const files = Object.fromEntries(Array.from({ length: 3000 }, (_, n) => [`f${n}`, 'x']));
    mock({ '/w': files });
    let turns = 0;
    const count = (): void => {
      turns += 1;
      timer = setImmediate(count);
    };
    let timer = setImmediate(count);
    const paths: string[] = [];
    for await (const piece of listTreeInTurns(walkOf('/w'), new AbortController().signal)) {
      expect(piece.length).toBeLessThanOrEqual(256);
      paths.push(...piece);
    }
    clearImmediate(timer);
    expect(new Set(paths).size).toBe(3000);
    expect(paths).toHaveLength(3000);
    expect(turns).toBeGreaterThan(5);
  });

  it('ends when it is aborted', async () => {
    mock({ '/w': Object.fromEntries(Array.from({ length: 600 }, (_, n) => [`f${n}`, 'x'])) });
    const stop = new AbortController();
    const walking = findAll(walkOf('/w'), 'thread', stop.signal);
    stop.abort(new Error('enough'));
    await expect(walking).rejects.toThrow('enough');
  });
});

describe('findAll', () => {
  it.each(['thread', 'pool'] as const)('gives the facts of every file, looking on the %s', async (lookOn) => {
    const dir = freshDirectory();
    fs.writeFileSync(`${dir}/one`, 'four', { mode: 0o640 });
    fs.linkSync(`${dir}/one`, `${dir}/two`);
    fs.symlinkSync('one', `${dir}/three`);
    const files = await findAll(walkOf(dir), lookOn);
    const lines = files.map(({ path, link, facts }) => `${path} ${link} ${facts.size} ${facts.links}`);
    expect(lines.toSorted()).toEqual(['one false 4 2', 'three true 3 1', 'two false 4 2']);
    expect(files).toContainEqual(lookAt(dir, 'one'));
  });

  it('leaves out a file that is gone when it is looked at', () => {
    expect(lookAt(freshDirectory(), 'gone')).toBeUndefined();
  });
});
