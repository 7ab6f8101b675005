// Which watch stands for which path, through every kind of move.
import { beforeEach, describe, expect, it } from 'vitest';
import { below, WatchTree } from '../../src/watch/tree.ts';

let tree: WatchTree;

beforeEach(() => {
  tree = new WatchTree();
  tree.place(1, '');
  tree.place(2, 'a');
  tree.place(3, 'a/b');
});

const pathOf = (watch: number): string | undefined => tree.pathOf(watch);

describe('a watch', () => {
  it('keeps its number when a directory above it gets another name', () => {
    const dir = tree.take('a');
    expect([pathOf(2), pathOf(3)]).toEqual([undefined, undefined]);
    if (dir !== undefined) tree.put(dir, 'c');
    expect([pathOf(2), pathOf(3)]).toEqual(['c', 'c/b']);
  });

  it('is corrected by the kernel’s latest answer', () => {
    tree.place(3, 'd');
    expect(pathOf(3)).toBe('d');
    expect(tree.take('a/b')).toBeUndefined();
  });

  it('that is displaced by another one is remembered until it is known to be gone', () => {
    tree.place(4, 'a');
    expect([pathOf(2), pathOf(3), pathOf(4)]).toEqual([undefined, undefined, 'a']);
    expect(tree.displaced.size).toBe(1);
    tree.forget(2);
    expect(tree.displaced.size).toBe(0);
  });

  it('finds its path below directories that have none', () => {
    tree.place(5, 'x/y/z');
    tree.place(6, 'x');
    expect([pathOf(5), pathOf(6)]).toEqual(['x/y/z', 'x']);
    const dir = tree.take('x');
    expect(dir === undefined ? [] : below(dir).map(({ watch }) => watch)).toEqual([6, undefined, 5]);
  });

  it('of a directory that is mounted below itself keeps its path', () => {
    tree.place(2, 'a/b/again');
    expect(pathOf(2)).toBe('a');
  });
});

describe('a pass', () => {
  it('marks as stale what it did not find', () => {
    tree.beginPass();
    tree.place(1, '');
    tree.place(2, 'a');
    expect(tree.stale()).toEqual([3]);
  });
});
