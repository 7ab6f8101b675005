// What is kept beyond --generations, and which sets a death that comes to light marks: without a run, in time
// that the test makes.
import fs from 'node:fs';
import os from 'node:os';
import { TaskNews } from '../../../src/sidecar/run/task-news.ts';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Evidence } from '../../../src/model/file/evidence.ts';
import { newFileState } from '../../../src/model/file/file-state.ts';
import type { Generation, StoredFile } from '../../../src/model/format/records.ts';
import { type LastClose, markSuspect } from '../../../src/sidecar/checkpoints/generation-record.ts';
import { Spare } from '../../../src/sidecar/checkpoints/spare.ts';

const START_MS = 1_000_000;

let fd = -1;
beforeEach(() => {
  fd = fs.openSync(os.tmpdir(), fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  vi.useFakeTimers({ now: START_MS });
});
afterEach(() => {
  vi.useRealTimers();
  fs.closeSync(fd);
});

const generation = (number: number, ...keys: readonly string[]): Generation => ({
  attempt: 1,
  generation: number,
  at: new Date(START_MS + number).toISOString(),
  members: keys.map((key) => ({ path: 'k.chk', key, md5: `of ${key}`, mtimeNs: '0' }) as StoredFile),
  companions: [],
});

/** Two sets of a member that was closed now, in place, as a process ended, and one is wanted. */
function opened(evidence: Evidence) {
  let newest = { key: 'k.2', md5: 'of k.2' };
  let stands = true;
  const drop = vi.fn<() => void>();
  const fileState = {
    ...newFileState('k.chk', 'checkpoint'),
    lastClose: { how: 'close' as const, atMs: START_MS, evidence },
  };
  const generations = [generation(2, 'k.2'), generation(1, 'k.1')];
  const parts = {
    context: {
      root: { fd, path: os.tmpdir() },
      ledger: { generations },
      settings: { generations: 1 },
      now: () => Date.now(),
      taskNews: new TaskNews(() => Date.now()),
    },
    files: { get: () => fileState },
    checkpoints: { newestOf: () => newest, isThere: () => stands },
  };
  const spare = new Spare(parts as unknown as ConstructorParameters<typeof Spare>[0], drop);
  return {
    spare,
    isProven: (one: Pick<Generation, 'members'>): boolean => spare.isProven(one, generations),
    remove: () => {
      stands = false;
    },
    drop,
    generations,
    store: (key: string, md5 = `of ${key}`) => {
      newest = { key, md5 };
    },
  };
}

it('a set is proven ten seconds after its last close, and then the older one is dropped', () => {
  const { spare, isProven, drop, generations } = opened('doubtful');
  spare.committed();
  expect(generations.map(isProven)).toEqual([false, true]);
  vi.advanceTimersByTime(9999);
  expect(drop).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(drop).toHaveBeenCalledOnce();
  expect(generations.map(isProven)).toEqual([true, true]);
});

it('a set is not proven before the task has lived on for ten seconds, or has closed its files again', () => {
  const { isProven, generations, store } = opened('doubtful');
  const newest = { ...generation(2, 'k.2'), unproven: true };
  generations[0] = newest;
  expect(isProven(newest)).toBe(false);
  store('k.3');
  expect(isProven(newest)).toBe(true);
  // As a sidecar does that replaces another.
  store('k.3', 'of k.2');
  expect(isProven(newest)).toBe(false);
  vi.advanceTimersByTime(10_000);
  expect(isProven(newest)).toBe(true);
});

it.each<[Evidence, boolean]>([
  ['clean', true],
  ['doubtful', false],
  ['unknown', false],
])('a set whose closes are %s is proven at once: %s', (evidence, atOnce) => {
  const { isProven, generations } = opened(evidence);
  expect(generations.map(isProven)).toEqual([atOnce, true]);
});

it('if a file of a set was changed after its last close, as under another name, the set is proven ten seconds later', () => {
  const { isProven, generations } = opened('clean');
  const [newest] = generations;
  const mtimeNs = `${BigInt(START_MS + 5) * 1_000_000n}`;
  const changed = { members: (newest?.members ?? []).map((one) => ({ ...one, mtimeNs })) };
  vi.advanceTimersByTime(5);
  expect(isProven(changed)).toBe(false);
  vi.advanceTimersByTime(10_000);
  expect(isProven(changed)).toBe(true);
});

it('a set that reports that it is not proven yet is checked again', () => {
  const { spare, drop, generations } = opened('doubtful');
  generations.splice(0, 2, { ...generation(2, 'k.2'), unproven: true });
  spare.committed();
  vi.advanceTimersByTime(10_000);
  expect(drop).toHaveBeenCalledOnce();
});

it('after a signal to the task, only its end proves a set', () => {
  const { spare, isProven, drop, generations } = opened('doubtful');
  spare.signalled(START_MS);
  spare.committed();
  vi.advanceTimersByTime(60_000);
  expect(drop).not.toHaveBeenCalled();
  expect(generations.map(isProven)).toEqual([false, true]);
  spare.endedWell();
  expect(generations.map(isProven)).toEqual([true, true]);
});

it.each<[Evidence, boolean]>([
  ['clean', true],
  ['unknown', false],
  ['doubtful', false],
])(
  'a set whose closes came after a signal to the task and are %s is proven before the task’s end: %s',
  (evidence, proven) => {
    const { spare, isProven, generations } = opened(evidence);
    const [newest] = generations;
    if (newest === undefined) throw new Error('there is none');
    spare.signalled(START_MS);
    expect(isProven(newest)).toBe(proven);
    vi.advanceTimersByTime(60_000);
    expect(isProven(newest)).toBe(proven);
    spare.endedWell();
    expect(isProven(newest)).toBe(true);
  },
);

describe('a set with a file that the task has removed', () => {
  it.each<[Evidence, boolean]>([
    ['clean', true],
    ['doubtful', false],
    ['unknown', false],
  ])('after a close that is %s is proven by time and by the end of the task: %s', (evidence, proven) => {
    const { spare, isProven, remove, generations } = opened(evidence);
    generations.splice(0, 2, { ...generation(2, 'k.2'), unproven: true }, generation(1, 'k.1'));
    remove();
    vi.advanceTimersByTime(60_000);
    expect(generations.map(isProven)).toEqual([proven, true]);
    spare.endedWell();
    expect(generations.map(isProven)).toEqual([proven, true]);
  });

  it.each<[string, Partial<Generation>, boolean]>([
    ['a set without it', { unproven: true }, true],
    ['a set without it that lacks a file', { incomplete: true }, false],
    ['a set without it that a death has cut', { suspect: true }, false],
  ])('is proven by time when %s has followed: %s, %s', (_, marks, proven) => {
    const { isProven, remove, generations } = opened('doubtful');
    const doubted = { ...generation(2, 'k.2'), unproven: true };
    generations.splice(0, 2, { ...generation(3, 'k.3'), ...marks }, doubted, generation(1, 'k.1'));
    remove();
    expect(isProven(doubted)).toBe(false);
    vi.advanceTimersByTime(10_000);
    expect(isProven(doubted)).toBe(proven);
  });

  it('is proven when a proven set holds the same object, or when the next one still does and its file stands', () => {
    const { isProven, remove, generations } = opened('doubtful');
    const doubted = { ...generation(3, 'k.2'), unproven: true };
    generations.splice(0, 2, doubted, { ...generation(2, 'k.2'), unproven: true });
    vi.advanceTimersByTime(10_000);
    expect(generations.map(isProven)).toEqual([true, true]);
    remove();
    expect(generations.map(isProven)).toEqual([false, false]);
    generations.splice(1, 1, generation(2, 'k.2'));
    expect(isProven(doubted)).toBe(true);
  });
});

describe('when a death is discovered', () => {
  const marked = (before: readonly Generation[], close: LastClose): readonly unknown[] => {
    let generations = before;
    const ledger = {
      get generations() {
        return generations;
      },
      setGenerations: (now: readonly Generation[]) => (generations = now),
    };
    const context = { ledger, log: { warn: vi.fn<() => void>() }, attempt: 1 } as unknown as Parameters<
      typeof markSuspect
    >[0];
    markSuspect(context, new Map([['k.chk', close]]));
    return generations.map(({ suspect, unproven }) => (suspect === true ? 'suspect' : (unproven ?? '')));
  };
  const sets = [generation(3, 'k.2', 'm.3'), generation(2, 'k.2', 'm.2'), generation(1, 'k.2')];

  it('every set with the bytes that it closed is marked, but none that was committed before that close', () => {
    // A push that found nothing new names the object that was there before the close.
    expect(marked(sets, { atMs: START_MS + 2, md5: 'of k.2' })).toEqual(['suspect', 'suspect', '']);
  });

  it('an unproven set with the same bytes is marked, whenever the replacing sidecar found them', () => {
    const [, , oldest] = sets;
    const unproven = [generation(2, 'k.1'), { ...oldest, unproven: true } as Generation];
    const late = START_MS + 60_000;
    expect(marked(unproven, { atMs: late, md5: 'of k.2' })).toEqual(['', 'suspect']);
    expect(marked(unproven, { atMs: late, md5: 'of k.3' })).toEqual(['', true]);
    expect(marked(unproven, { atMs: late, md5: undefined })).toEqual(['', 'suspect']);
  });
});
